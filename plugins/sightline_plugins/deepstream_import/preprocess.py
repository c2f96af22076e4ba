"""nvdspreprocess: regions of interest that a model runs on, in fractions of the frame."""

from __future__ import annotations

import re
from typing import Any

from sightline_plugins.deepstream_import.outcomes import Outcome
from sightline_plugins.deepstream_import.plan import Import, Stage, Step
from sightline_plugins.deepstream_import.sections import Configuration, Section
from sightline_plugins.deepstream_import.settings import Settings, report_unknown_section
from sightline_plugins.deepstream_import.tables.inference import (
    PREPROCESS,
    PREPROCESS_GROUP,
    PREPROCESS_SECTION,
    USER_CONFIGS,
)

_REGION = re.compile(r"roi-params-src-(\d+)")
_GROUP = re.compile(r"group-\d+")
_SHARES = 5


def add_regions(section: Section, imported: Import) -> None:
    """Give the model that a section prepares input for its regions."""
    found = imported.read_named(section, PREPROCESS_SECTION, plugin="nvdspreprocess")
    if found is not None:
        _add_file(found, imported)


def _add_file(found: Configuration, imported: Import) -> None:
    regions: dict[str, list[list[float]]] = {}
    step: Step | None = None
    for name, section in found.sections.items():
        if name == "property":
            settings = Settings(section, PREPROCESS, imported.outcomes)
            step = _target(settings, imported)
            settings.flag("process-on-frame", default=True)
            settings.close()
        elif name == "user-configs":
            _normalization(Settings(section, USER_CONFIGS, imported.outcomes), step)
        elif _GROUP.fullmatch(name):
            _add_group(Settings(section, PREPROCESS_GROUP, imported.outcomes), imported, regions)
        else:
            report_unknown_section(section, ("property", "user-configs", "group-0"), imported.outcomes)
    if step is not None and regions:
        several = len(imported.plan.streams) > 1
        step.options["regions"] = regions if several else next(iter(regions.values()))


def _target(settings: Settings, imported: Import) -> Step | None:
    """Return the step of the model that the regions are for."""
    wanted = [f"gie-{number}" for number in settings.ids("target-unique-ids")]
    steps = [one for one in imported.plan.stages[Stage.DETECT] if not wanted or one.options.get("id") in wanted]
    if not steps and "target-unique-ids" in settings:
        text = "no model on frames has this id: its regions are left out"
        settings.note("target-unique-ids", Outcome.IMPOSSIBLE, text)
    return steps[0] if steps else None


def _normalization(settings: Settings, step: Step | None) -> None:
    """Take the scale and the means that the usual library of nvdspreprocess is given."""
    factor = settings.number("pixel-normalization-factor", 0)
    means = settings.numbers("offsets") or settings.numbers("channel-mean")
    if step is not None:
        if factor > 0:
            step.options["scale"] = [float(f"{1 / factor:.6g}")]
        if means:
            step.options["mean"] = list(means)
    settings.close()


def _add_group(settings: Settings, imported: Import, regions: dict[str, list[list[float]]]) -> None:
    streams = imported.plan.streams
    listed = settings.ids("src-ids")
    is_on = settings.flag("process-on-roi", default=False)
    for key in list(settings.section.entries):
        match = _REGION.fullmatch(key)
        if match is None:
            continue
        number = int(match[1])
        if not is_on or (listed and number not in listed):
            settings.note(key, Outcome.NO_EFFECT, "the group does not work on regions of this stream")
        elif number >= len(streams):
            settings.note(key, Outcome.NO_EFFECT, f"there is no stream {number}: the configuration has {len(streams)}")
        elif imported.frame_wh is None:
            text = "the size of the muxer's frames is not known: give `regions` in fractions of the frame"
            settings.note(key, Outcome.IMPOSSIBLE, text)
        else:
            regions.setdefault(streams[number], []).extend(_boxes(settings, key, imported.frame_wh))
    settings.close()


def _boxes(settings: Settings, key: str, size_wh: tuple[float, float]) -> list[list[float]]:
    """Return `left;top;width;height;...` as [left, top, right, bottom] in fractions of the frame."""
    numbers = settings.numbers(key)
    if not numbers or len(numbers) % 4:
        raise settings.error(key, "left;top;width;height of each region is expected")
    found: list[list[float]] = []
    for left, top, width, height in zip(*(numbers[start::4] for start in range(4)), strict=True):
        edges: tuple[Any, ...] = (
            left / size_wh[0],
            top / size_wh[1],
            (left + width) / size_wh[0],
            (top + height) / size_wh[1],
        )
        found.append([round(min(1.0, max(0.0, edge)), _SHARES) for edge in edges])
        if found[-1][0] >= found[-1][2] or found[-1][1] >= found[-1][3]:
            raise settings.error(key, "a region has no area inside the frame")
    return found
