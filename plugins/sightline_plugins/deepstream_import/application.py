"""deepstream-app's configuration, in both its forms: section by section into a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sightline_plugins.deepstream_import.analytics import add_analytics, add_rules
from sightline_plugins.deepstream_import.branches import limit_to_branches, with_files_of_branches
from sightline_plugins.deepstream_import.elements import to_sections
from sightline_plugins.deepstream_import.file_forms import read_configuration
from sightline_plugins.deepstream_import.inference import add_model, add_model_file
from sightline_plugins.deepstream_import.outcomes import KeyOutcome, Outcome
from sightline_plugins.deepstream_import.outputs import add_outputs, realtime_wanted
from sightline_plugins.deepstream_import.plan import Import, Plan, Stage, duration, safe_name
from sightline_plugins.deepstream_import.preprocess import add_regions
from sightline_plugins.deepstream_import.sample_apps import is_sample_app, of_sample_app
from sightline_plugins.deepstream_import.sections import Configuration, Section
from sightline_plugins.deepstream_import.service_maker import SECTION, is_service_maker, nodes_of
from sightline_plugins.deepstream_import.settings import Settings, refuses, report_unknown_section
from sightline_plugins.deepstream_import.source_text import Place
from sightline_plugins.deepstream_import.sources import add_sources, output_folder
from sightline_plugins.deepstream_import.tables.application import APPLICATION, IMAGE_SAVE, STREAMMUX, TESTS
from sightline_plugins.deepstream_import.tables.inference import GIE
from sightline_plugins.deepstream_import.tracking import add_tracker, add_tracker_file, is_tracker

_SECTIONS = (
    *("application", "tiled-display", "source-list", "source-attr-all", "source", "streammux", "osd", "tests"),
    *("primary-gie", "secondary-gie", "tracker", "nvds-analytics", "pre-process", "message-converter", "img-save"),
    "meta-mux",
)
_NUMBERED = (
    *("source", "sink", "primary-gie", "secondary-gie", "secondary-pre-process", "message-consumer"),
    *("branch", "nvds-analytics"),
)
_OTHERS = {
    "ds-example": "a plugin to copy from: `apply` and `callback` run a function in Python",
    "audio-transform": "audio is not processed",
    "audio-classifier": "audio is not processed",
    "video-template": "elements of compiled code are not run: `apply` and `callback` run a function in Python",
    "segvisual": "`draw` shows the masks of `segment`",
    "secondary-postprocess": "compiled code is not run: a head reads the outputs",
    "c2d-msg": "no messages are taken from brokers: the API and `sightline ctl` steer a pipeline",
    "source-config": "sources have options of their own, the same for files and cameras",
    "sensor-list": "streams have names: `sources` lists them",
    "dewarper": "`dewarp` computes straight views of fisheye cameras",
}
_NUMBER = re.compile(r"\d+$")
_MODEL, _ANALYTICS = "property", ("config-width", "config-height")
_PARTS = {
    "target-unique-ids": "nvdspreprocess",
    "processing-width": "nvdspreprocess",
    "active-pad": "nvdsmetamux",
    "message-broker": "a broker",
    "sensor": "nvmsgconv",
    "place": "nvmsgconv",
    "analytics": "nvmsgconv",
}
"""Keys of [property], and sections, by which a file is recognised that another one names."""
MICROSECONDS = 1e6


def import_deepstream(path: Path, *, folder: Path, compat: bool = False, fps: float = 30.0) -> Import:
    """Return the plan of a configuration of DeepStream: of deepstream-app, or a file of nvinfer or nvdsanalytics alone.

    `folder` is where the pipeline will be written. Nothing is written. Raises ConfigurationError and ModelError, which
    name file and line, for what cannot be read or is wrong.
    """
    configuration = read_configuration(path)
    imported = Import(folder, Plan(safe_name(path.stem, default="pipeline")), compat=compat, fps=fps)
    if configuration.assumed_encoding is not None:
        text = f"not UTF-8: read as {configuration.assumed_encoding}; look at names with other letters than a to z"
        imported.outcomes.add(
            KeyOutcome(Outcome.DIFFERENT, Place(path, 1), "", "encoding", configuration.assumed_encoding, text)
        )
    if is_service_maker(configuration):
        elements = nodes_of(configuration.sections[SECTION])
        add_application(to_sections(elements, path, imported.outcomes), imported)
    elif not _is_application(configuration):
        _add_alone(configuration, imported)
    elif is_sample_app(configuration):
        add_application(of_sample_app(configuration, imported.outcomes), imported)
    else:
        add_application(configuration, imported)
    add_results(imported)
    return imported


def _is_application(configuration: Configuration) -> bool:
    return _MODEL not in configuration.sections and any(
        name in _SECTIONS or _NUMBER.sub("", name) in _NUMBERED for name in configuration.sections
    )


def _add_alone(configuration: Configuration, imported: Import) -> None:
    """Add a file that deepstream-app's would name: one model, or rules."""
    place = Place(configuration.path)
    section = configuration.sections.get(_MODEL)
    empty = Section("primary-gie", place)
    if section is not None and any(key in section.entries for key in _ANALYTICS):
        add_rules(configuration, imported)
    elif is_tracker(configuration):
        add_tracker_file(configuration, imported)
    elif (kind := _kind_of_part(configuration)) is not None:
        raise place.error(f"is a file of {kind}, which is read with the configuration that names it: import that one")
    elif section is not None or "infer_config" in configuration.sections:
        add_model_file(configuration, Settings(empty, GIE, imported.outcomes), imported, secondary=False)
    else:
        known = ", ".join(("[application]", "[source0]", "[primary-gie]", "[property]", "infer_config"))
        found = ", ".join(f"[{name}]" for name in list(configuration.sections)[:6]) or "nothing"
        raise place.error(f"is no configuration of DeepStream: it has {found}, and none of {known}")


def _kind_of_part(configuration: Configuration) -> str | None:
    """Return what a file is that means nothing without the one that names it; None for others."""
    section = configuration.sections.get(_MODEL)
    if section is not None:
        return next((kind for key, kind in _PARTS.items() if key in section.entries), None)
    names = {_NUMBER.sub("", name) for name in configuration.sections}
    return next((kind for name, kind in _PARTS.items() if name in names), None)


def add_application(given: Configuration, imported: Import) -> None:
    """Add what the sections of deepstream-app describe. Raises ConfigurationError and ModelError."""
    configuration = with_files_of_branches(given, imported)
    _add_settings(configuration, imported)
    loop = _loops(configuration, imported)
    add_sources(configuration, imported, realtime=realtime_wanted(configuration), loop=loop)
    has_tracker = _add_models(configuration, imported)
    limit_to_branches(configuration, imported)
    for section in _all(configuration, "nvds-analytics"):
        add_analytics(section, imported)
    _add_kitti(configuration, imported, has_tracker=has_tracker)
    for section in configuration.named("img-save"):
        _add_images(Settings(section, IMAGE_SAVE, imported.outcomes), imported)
    add_outputs(configuration, imported)
    _report_others(configuration, imported)


def _all(configuration: Configuration, name: str) -> Iterator[Section]:
    """Yield the section of that name, and those with a number behind it."""
    yield from configuration.named(name)
    yield from (section for _, section in configuration.numbered(name))


def _add_models(configuration: Configuration, imported: Import) -> bool:
    """Add models, their regions, and the tracker between them; return whether there is one."""
    for section in _all(configuration, "primary-gie"):
        add_model(section, imported, secondary=False)
    for section in configuration.named("pre-process"):
        add_regions(section, imported)
    has_tracker = False
    for section in configuration.named("tracker"):
        has_tracker = add_tracker(section, imported)
    for section in _all(configuration, "secondary-gie"):
        add_model(section, imported, secondary=True)
    for _, section in configuration.numbered("secondary-pre-process"):
        add_regions(section, imported)
    return has_tracker


def _report_others(configuration: Configuration, imported: Import) -> None:
    """Report sections that become no step, and those that DeepStream does not know."""
    known = [*_SECTIONS, *(f"{name}0" for name in _NUMBERED)]
    for name, section in configuration.sections.items():
        if name in _SECTIONS or (_NUMBER.search(name) and _NUMBER.sub("", name) in _NUMBERED):
            continue
        if (plain := _NUMBER.sub("", name)) in _OTHERS:
            Settings(section, {"*": refuses(_OTHERS[plain], off=())}, imported.outcomes).close()
        else:
            report_unknown_section(section, known, imported.outcomes)


def _add_settings(configuration: Configuration, imported: Import) -> None:
    """Take what is about the pipeline as a whole: device and batch."""
    for section in configuration.named("application"):
        settings = Settings(section, APPLICATION, imported.outcomes)
        if (number := settings.whole("global-gpu-id", 0)) > 0:
            imported.plan.device = f"cuda:{number}"
        settings.close()
    for section in configuration.named("streammux"):
        settings = Settings(section, STREAMMUX, imported.outcomes)
        width, height = settings.number("width", 0), settings.number("height", 0)
        imported.frame_wh = (width, height) if width > 0 and height > 0 else None
        if (size := settings.whole("batch-size", 0)) > 0:
            imported.plan.batch["size"] = size
        if (timeout := settings.number("batched-push-timeout", -1)) > 0:
            imported.plan.batch["timeout"] = duration(max(1000, timeout) / MICROSECONDS)
        elif "batched-push-timeout" in settings:
            text = "-1 waits for a full batch without end; here a batch leaves after 40 ms"
            settings.note("batched-push-timeout", Outcome.DIFFERENT, text)
        settings.close()


def _loops(configuration: Configuration, imported: Import) -> bool:
    for section in configuration.named("tests"):
        settings = Settings(section, TESTS, imported.outcomes)
        loop = settings.flag("file-loop")
        settings.close()
        return loop
    return False


def _add_kitti(configuration: Configuration, imported: Import, *, has_tracker: bool) -> None:
    """Add the files of boxes and tracks that [application] asks for."""
    for section in configuration.named("application"):
        values = section.values()
        if folder := values.get("gie-kitti-output-dir", "").strip():
            options = {"path": f"{output_folder(folder)}/{{stream}}/{{frame}}.txt", "layout": "detection"}
            imported.plan.add(Stage.FOUND, "kitti", options, "Boxes as the detector gave them.")
        if (folder := values.get("kitti-track-output-dir", "").strip()) and has_tracker:
            imported.plan.add(Stage.RESULTS, "kitti", {"path": f"{output_folder(folder)}/{{stream}}.txt"}, "")


def _add_images(settings: Settings, imported: Import) -> None:
    if not settings.is_enabled:
        settings.close(because="saving images is switched off")
        return
    folder = output_folder(settings.text("output-folder-path", "out"))
    options: dict[str, Any] = {"path": f"{folder}/{{stream}}-{{track}}-{{frame}}.jpg", "on": "track"}
    if settings.flag("save-img-cropped-obj"):
        options["crop"] = True
        if settings.flag("save-img-full-frame"):
            text = "the object alone: a second `snapshots` without `crop` saves whole frames"
            settings.note("save-img-full-frame", Outcome.DIFFERENT, text)
    if (seconds := settings.number("second-to-skip-interval", 0)) > 0:
        options["again"] = duration(seconds)
    imported.plan.add(Stage.RESULTS, "snapshots", options, "An image of each object.")
    settings.close()


def add_results(imported: Import) -> None:
    """Add what a pipeline needs and the configuration does not name: a tracker for rules, an output, a source."""
    plan = imported.plan
    follows = plan.stages[Stage.RULES] or any(step.element == "snapshots" for step in plan.steps())
    if follows and not plan.stages[Stage.TRACK]:
        plan.add(Stage.TRACK, "track", {}, "Rules and images are about tracks, and the configuration has no tracker.")
    if (follows or plan.stages[Stage.TRACK]) and not plan.models:
        imported.outcomes.missing.append("no detector was found: put `detect: {model: ...}` before `track`")
    if not any(plan.stages[stage] for stage in (Stage.RESULTS, Stage.VIDEO)):
        comment = "Nothing else is written: results, one line a frame."
        plan.add(Stage.RESULTS, "jsonl", {"path": "out/{stream}.jsonl"}, comment)
    if not plan.sources:
        plan.sources["camera"] = {"uri": "video.mp4"}
        imported.outcomes.missing.append("no source was found: put yours instead of `video.mp4`")
