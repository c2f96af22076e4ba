"""The parallel application: models beside each other, each on some of the streams, with files for what follows it.

`[branchN]` names a model and its streams. `[trackerN]`, `[secondary-gieN]` and `[nvds-analyticsN]` name files that hold
the sections which other applications have themselves.
"""

from __future__ import annotations

from sightline_plugins.deepstream_import.outcomes import Outcome
from sightline_plugins.deepstream_import.plan import Import, Stage
from sightline_plugins.deepstream_import.sections import Configuration, Section
from sightline_plugins.deepstream_import.settings import Settings, Table, refuses, takes
from sightline_plugins.deepstream_import.tables.common import ENABLE

_FILE = "cfg-file-path"
_TRACKER, _OBJECTS = "tracker", "secondary-gie"
_NAMES_FILE: Table = {"enable": ENABLE, _FILE: takes("read as well")}
_BRANCH: Table = {"pgie-id": takes("`id` of the step"), "src-ids": takes("`streams` of the step")}
_IN_A_FILE = 100
"""Room for the numbers of the sections of one file."""


def with_files_of_branches(found: Configuration, imported: Import) -> Configuration:
    """Return a configuration with the sections of the files that branches name, instead of those that name them."""
    if not any(_FILE in section.entries for section in found.sections.values()):
        return found
    made = Configuration(found.path)
    has_tracker = False
    for name, section in found.sections.items():
        plain = name.rstrip("0123456789")
        if _FILE not in section.entries or plain not in (_TRACKER, _OBJECTS):
            made.sections[name] = section
            continue
        is_late = plain == _TRACKER and has_tracker
        for number, inner in enumerate(_sections_of(section, imported, is_late=is_late)):
            if inner.name.startswith(plain):
                place = int(name.removeprefix(plain) or 0) * _IN_A_FILE + number
                made.sections[plain if plain == _TRACKER else f"{plain}{place}"] = inner
                has_tracker |= plain == _TRACKER
    return made


def _sections_of(section: Section, imported: Import, *, is_late: bool) -> list[Section]:
    """Return the sections of the file that a section names; none where that is switched off, or comes too late."""
    settings = Settings(section, _NAMES_FILE, imported.outcomes)
    if not settings.is_enabled:
        settings.close(because="the branch is without it")
        return []
    if is_late:
        text = "one `track` follows the objects of all models: the first branch's file is read"
        settings.note(_FILE, Outcome.DIFFERENT, text)
        settings.close()
        return []
    path = section.place.file.parent / settings.text(_FILE)
    settings.close()
    inner = imported.read(path, named_by=f"[{section.name}] {_FILE}")
    return [] if inner is None else list(inner.sections.values())


def limit_to_branches(configuration: Configuration, imported: Import) -> None:
    """Let each model run on the streams of its branch alone."""
    plan = imported.plan
    for _, section in configuration.numbered("branch"):
        settings = Settings(section, _BRANCH, imported.outcomes)
        streams = [plan.streams[one] for one in settings.ids("src-ids") if 0 <= one < len(plan.streams)]
        model = plan.models.get(settings.whole("pgie-id", -1))
        if model is None:
            settings.note("pgie-id", Outcome.IMPOSSIBLE, "no model has this id")
        elif streams and len(streams) < len(plan.streams):
            for step in plan.stages[Stage.DETECT]:
                if step.options.get("id") == model.id:
                    step.options = {"id": model.id, "streams": streams, **step.options}
        settings.close()
    for section in configuration.named("meta-mux"):
        because = "results of all models stay with their frame"
        Settings(section, {"*": refuses(because)}, imported.outcomes).close(because=because)
