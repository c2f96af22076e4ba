"""The tracker: which algorithm stands for which configuration of NvMultiObjectTracker, and its options.

DeepStream's four trackers are one library with parts switched on and off: correlation filters make NvDCF, a Kalman
filter with the cascaded association NvSORT, a model for re-identification NvDeepSORT, and none of them IOU.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sightline_plugins.deepstream_import.outcomes import Outcome
from sightline_plugins.deepstream_import.plan import Import, Stage
from sightline_plugins.deepstream_import.sections import Configuration, Entry, Section
from sightline_plugins.deepstream_import.settings import Settings, report_unknown_section, rule_of
from sightline_plugins.deepstream_import.source_text import Place, is_file
from sightline_plugins.deepstream_import.tables.tracking import FILE, TRACKER

_COLORS = {0: "rgb", 1: "bgr"}
_COMPAT = "Targets live as those of DeepStream, in frames."
_IN_FRAMES: Mapping[str, Mapping[str, Any]] = {"iou": {"motion": "none"}, "bytetrack": {"matching": "cascaded"}}
"""Options of the tracker `deepstream` where a file is missing that would name another algorithm."""
_AGES = (
    ("TargetManagement", "probationAge", "probation_age"),
    ("TargetManagement", "earlyTerminationAge", "early_termination_age"),
    ("TargetManagement", "maxShadowTrackingAge", "max_shadow_age"),
)
_FRACTIONS = (
    ("BaseConfig", "minDetectorConfidence", "low_confidence"),
    ("TargetManagement", "minIouDiff4NewTarget", "new_target_iou"),
    ("DataAssociator", "tentativeDetectorConfidence", "high_confidence"),
    ("DataAssociator", "minMatchingScore4Iou", "min_iou"),
    ("DataAssociator", "minMatchingScore4TentativeIou", "tentative_min_iou"),
)
"""Keys that the tracker `deepstream` has options for: section, key, option."""
_OLD_LIBRARIES = {"iou": "iou", "klt": "adaptive", "nvdcf": "adaptive"}
_OLD_SECTIONS = ("NvDCF", "IOU", "KLT")
"""The only sections of trackers before NvMultiObjectTracker, each with all keys of its tracker."""
_SAMPLES: Mapping[str, tuple[dict[str, Any], str]] = {
    "nvdeepsort": ({}, "NvDeepSORT, by the name of its file: it compares embeddings (`appearance: true`)."),
    "nvdcf": ({"visual": True}, "NvDCF, by the name of its file: `visual` follows objects by correlation filters."),
    "nvsort": ({"algorithm": "bytetrack"}, "NvSORT, by the name of its file."),
    "iou": ({"algorithm": "iou"}, "IOU, by the name of its file: no motion model."),
}
"""What stands for DeepStream's own files by their names (`config_tracker_NvDCF_perf.yml`), where they are missing."""


def add_tracker(section: Section, imported: Import) -> bool:
    """Add the tracker of a configuration; return whether it is switched on."""
    settings = Settings(section, TRACKER, imported.outcomes)
    if not settings.is_enabled:
        settings.close(because="the tracker is switched off")
        return False
    library = settings.text("ll-lib-file")
    named = [part.strip() for part in settings.text("ll-config-file").split(";") if part.strip()]
    if len(named) > 1:
        text = "the first of several files is taken: `track` works alike for all streams (`streams` sets it apart)"
        settings.note("ll-config-file", Outcome.DIFFERENT, text)
    found = None
    if named:
        found = imported.read(section.place.file.parent / named[0], named_by=f"[{section.name}] ll-config-file")
    if found is None:
        old = next((name for word, name in _OLD_LIBRARIES.items() if word in Path(library).name.lower()), None)
        options: dict[str, Any] = {"algorithm": old} if old == "iou" else {}
        comment = "No file sets the tracker up: DeepStream's IOU tracker is used then." if not named else ""
        options = options or ({"algorithm": "iou"} if not named else {})
        if named and not options:
            name = Path(named[0]).name.lower()
            sample = next((one for word, one in _SAMPLES.items() if word in name), ({}, ""))
            options, comment = dict(sample[0]), sample[1]
        if imported.compat:
            options, comment = dict(_IN_FRAMES.get(str(options.get("algorithm")), {})), _COMPAT
            options = {"algorithm": "deepstream", **options}
    else:
        options, comment = _options(_of_today(found), imported)
    if settings.flag("enable-past-frame"):
        options["past_frames"] = True
    settings.flag("display-tracking-id", default=True)
    imported.plan.add(Stage.TRACK, "track", options, comment)
    settings.close()
    return True


def is_tracker(configuration: Configuration) -> bool:
    """Return whether a file sets a tracker up."""
    names = configuration.sections
    return any(name in names for name in _OLD_SECTIONS) or sum(name in names for name in FILE) > 1


def add_tracker_file(found: Configuration, imported: Import) -> None:
    """Add the tracker of a file alone."""
    options, comment = _options(_of_today(found), imported)
    imported.plan.add(Stage.TRACK, "track", options, comment)


def _of_today(found: Configuration) -> Configuration:
    """Return a file with the sections of NvMultiObjectTracker; keys of a tracker before it go where they are now."""
    old = next((one for one in _OLD_SECTIONS if one in found.sections), None)
    if old is None:
        return found
    section = found.sections[old]
    made = Configuration(found.path)
    if old == "NvDCF":
        kind = Entry("visualTrackerType", "1", section.place, ())
        made.section("VisualTracker", section.place).add(kind)
    for entry in section.entries.values():
        name = next((name for name, table in FILE.items() if "*" not in table and rule_of(table, entry.key)), None)
        target = made.section(name or "TargetManagement", section.place)
        target.add(Entry(entry.key, entry.value, entry.place, (old, entry.key)))
    return made


def _options(found: Configuration, imported: Import) -> tuple[dict[str, Any], str]:
    """Return the options of `track`, and which of DeepStream's trackers it stands for."""
    sections = {
        name: Settings(found.sections.get(name, Section(name, Place(found.path))), table, imported.outcomes)
        for name, table in FILE.items()
    }
    base, targets, data = sections["BaseConfig"], sections["TargetManagement"], sections["DataAssociator"]
    reid, memory = sections["ReID"], sections["TrajectoryManagement"]
    options, comment = _algorithm(sections)
    algorithm = options.get("algorithm", "adaptive")
    if reid.whole("reidType", 0) > 0 and _embed(reid, imported):
        options["appearance"] = True
    if imported.compat and "appearance" not in options:
        options, comment = _as_deepstream(sections)
    else:
        _thresholds(algorithm, options, base=base, targets=targets, data=data, imported=imported)
        _matching(algorithm, options, data)
    if "maxTrackletMatchingTimeSearchRange" in memory and "appearance" in options:
        options["reidentify_within"] = imported.frames_to_time(memory.number("maxTrackletMatchingTimeSearchRange", 0))
    elif memory.flag("enableReAssoc"):
        text = "without a model for re-identification, `max_lost` is how long an object is waited for"
        memory.note("enableReAssoc", Outcome.DIFFERENT, text)
        if "maxTrackletMatchingTimeSearchRange" in memory:
            memory.note("maxTrackletMatchingTimeSearchRange", Outcome.NO_EFFECT, text)
    for name, settings in sections.items():
        if name in found.sections:
            settings.close()
    for name, section in found.sections.items():
        if name not in FILE:
            report_unknown_section(section, list(FILE), imported.outcomes)
    return options, comment


def _algorithm(sections: Mapping[str, Settings]) -> tuple[dict[str, Any], str]:
    """Return the algorithm that stands for the parts that are switched on."""
    estimator = sections["StateEstimator"].whole("stateEstimatorType", 0)
    is_cascaded = sections["DataAssociator"].whole("associationMatcherType", 0) == 1
    if sections["VisualTracker"].whole("visualTrackerType", 0) > 0:
        return {"visual": True}, "NvDCF: `visual` follows objects by correlation filters."
    if sections["ReID"].whole("reidType", 0) > 0:
        return {}, "NvDeepSORT: objects are compared by their embeddings."
    if estimator > 0 and is_cascaded:
        return {"algorithm": "bytetrack"}, "NvSORT: a Kalman filter, and sure detections first."
    if estimator > 0:
        return {"algorithm": "sort"}, "NvSORT with one round of matching."
    return {"algorithm": "iou"}, "IOU: no motion model."


def _as_deepstream(sections: Mapping[str, Settings]) -> tuple[dict[str, Any], str]:
    """Return the options of the tracker whose targets live as DeepStream's do."""
    data, estimator, visual = sections["DataAssociator"], sections["StateEstimator"], sections["VisualTracker"]
    options: dict[str, Any] = {"algorithm": "deepstream"}
    for name, key, option in _AGES:
        if key in sections[name]:
            options[option] = max(0, sections[name].whole(key, 0))
            sections[name].note(key, Outcome.TAKEN, f"`{option}`")
    for name, key, option in _FRACTIONS:
        if key in sections[name]:
            options[option] = _fraction(sections[name].number(key, 0))
            sections[name].note(key, Outcome.TAKEN, f"`{option}`")
    if data.whole("associationMatcherType", 0) == 1:
        options["matching"] = "cascaded"
    if not data.flag("checkClassMatch", default=True):
        options["same_class"] = False
    if "checkClassMatch" in data:
        data.note("checkClassMatch", Outcome.TAKEN, "`same_class`")
    if estimator.whole("stateEstimatorType", 0) == 0:
        options["motion"] = "none"
    if visual.whole("visualTrackerType", 0) > 0:
        text = (
            "with `--compat` targets live as DeepStream's do, and are not followed in images, which `visual: true` does"
        )
        visual.note("visualTrackerType", Outcome.DIFFERENT, text)
    return options, _COMPAT


def _matching(algorithm: str, options: dict[str, Any], data: Settings) -> None:
    """Set which detections continue a track: by overlap and by class."""
    if "minMatchingScore4Iou" in data:
        score = data.number("minMatchingScore4Iou", 0)
        if algorithm != "adaptive" and 0 < score <= 1:
            options["iou_threshold"] = score
        else:
            text = "0 takes any overlap; the algorithm has its own" if score == 0 else "`adaptive` weighs overlap"
            data.note("minMatchingScore4Iou", Outcome.NO_EFFECT, text)
    matches_classes = data.flag("checkClassMatch", default=True)
    if algorithm == "adaptive" and "checkClassMatch" in data:
        options["class_mismatch_weight"] = int(not matches_classes)
    elif matches_classes and algorithm != "adaptive":
        text = f"`{algorithm}` ignores classes; `algorithm: adaptive` with `class_mismatch_weight: 0` does not"
        data.note("checkClassMatch", Outcome.DIFFERENT, text)


def _thresholds(
    algorithm: str, options: dict[str, Any], *, base: Settings, targets: Settings, data: Settings, imported: Import
) -> None:
    """Set what decides which detections count, and for how long a track lives."""
    if "minDetectorConfidence" in base:
        least = base.number("minDetectorConfidence", 0)
        if algorithm == "sort":
            options["new_track_threshold"] = _fraction(least)
            base.note(
                "minDetectorConfidence", Outcome.DIFFERENT, "`new_track_threshold`: those below still continue a track"
            )
        else:
            options["low_confidence"] = _fraction(least)
            if algorithm == "adaptive":
                options["new_track_threshold"] = max(_fraction(least), 0.1)
    if "tentativeDetectorConfidence" in data:
        tentative = _fraction(data.number("tentativeDetectorConfidence", 0.5))
        if algorithm == "bytetrack":
            options |= {"high_confidence": tentative, "new_track_threshold": tentative}
        else:
            text = f"`{algorithm}` has no second round for unsure detections at a fixed confidence"
            data.note("tentativeDetectorConfidence", Outcome.NO_EFFECT, text)
    if "probationAge" in targets:
        options["min_hits"] = max(1, targets.whole("probationAge", 1))
    if "maxShadowTrackingAge" in targets:
        options["max_lost"] = imported.frames_to_time(max(0.0, targets.number("maxShadowTrackingAge", 0)))


def _fraction(value: float) -> float:
    return min(1.0, max(0.0, value))


def _embed(reid: Settings, imported: Import) -> bool:
    """Add the step that computes embeddings; return whether there is a model that can."""
    onnx = reid.text("onnxFile")
    if not onnx:
        text = "its model is no ONNX file: with one, put `embed` before `track` and set `appearance: true`"
        reid.note("reidType", Outcome.IMPOSSIBLE, text)
        return False
    path = reid.section.place.file.parent / onnx
    if not is_file(path):
        imported.outcomes.missing.append(f"{path}: the model for re-identification is not there")
    options: dict[str, Any] = {"model": imported.input_path(path), "reinfer_interval": "0s"}
    options |= _preprocessing(reid)
    imported.plan.add(Stage.EMBED, "embed", options, "Embeddings for the tracker, of each detection on each frame.")
    return True


def _preprocessing(reid: Settings) -> Mapping[str, Any]:
    options: dict[str, Any] = {"fit": "letterbox" if reid.flag("keepAspc") else "stretch"}
    if "colorFormat" in reid:
        options["color"] = _COLORS.get(reid.whole("colorFormat", 0), "rgb")
    if offsets := reid.numbers("offsets"):
        options["mean"] = list(offsets)
    factor = reid.number("netScaleFactor", 1.0)
    if factor > 0:
        options["scale"] = [float(f"{1 / factor:.6g}")]
    if len(dims := reid.numbers("inferDims")) == 3:
        options["size"] = [int(dims[2]), int(dims[1])]
    return options
