"""The text of a new pipeline: YAML with comments that say what to change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent

from sightline.config.schema import SCHEMA_LINE
from sightline_plugins.commands.new.wishes import Camera, Offer
from sightline_plugins.store.record import SCHEME


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for: a source, classes of objects, the model that finds them, and what to do (`WANTS`)."""

    camera: Camera
    classes: tuple[str, ...]
    model: Offer
    wants: Sequence[str]


def pipeline_text(plan: Plan, *, file: str) -> str:
    """Return the YAML of a plan, which is to be saved under the name `file`."""
    steps = "\n".join(indent(step, "  ") for step in _steps(plan))
    return f"{_head(plan, file)}\nname: {plan.camera.name}\n\n{_sources(plan.camera)}\n\npipeline:\n{steps}\n"


def _head(plan: Plan, file: str) -> str:
    first = "".join(
        [
            SCHEMA_LINE,
            f"# Find {', '.join(plan.classes)} with {plan.model.name}.\n#\n",
        ]
    )
    pull = () if plan.model.name.startswith(SCHEME) else (f"sightline models pull {plan.model.name}   # once",)
    commands = [
        *pull,
        f"sightline check {file}",
        f"sightline run {file}",
        f"sightline explain {file}   # every value, and where it comes from",
    ]
    if plan.camera.variable is not None:
        commands.insert(len(pull), f"export {plan.camera.variable}=...   # the password is not kept in this file")
    return first + "".join(f"#   {command}\n" for command in commands)


def _sources(camera: Camera) -> str:
    lines = [f"sources:\n  {camera.name}:", f"    uri: {json.dumps(camera.uri)}"]
    if camera.is_live:
        lines.append("    max_fps: 10         # enough for counting; other frames are skipped evenly")
    else:
        lines.append("    # realtime: true    # as fast as it was recorded, like a camera")
    return "\n".join(lines)


def _steps(plan: Plan) -> Iterator[str]:
    yield (
        f"- detect:\n    model: {plan.model.name}\n"
        f"    classes: {json.dumps(list(plan.classes))}\n"
        "    # confidence: 0.4  # higher: fewer false alarms; lower: fewer misses"
    )
    yield "- track                 # gives each object an id that it keeps"
    for want, step in (("counts", _LINE), ("zone", _ZONE)):
        if want in plan.wants:
            yield step
    yield '- jsonl: {path: "out/{stream}.jsonl"}   # all results, one line a frame'
    if "events" in plan.wants:
        yield _EVENTS
    if "video" in plan.wants:
        yield _VIDEO


_LINE = """\
# Count what crosses a line: `in` from its left to its right, seen from `from` to `to`. Fractions of the frame: [0, 0]
# is the top left, [1, 1] the bottom right. Draw your own.
- lines:
    middle: {from: [0.0, 0.5], to: [1.0, 0.5]}"""
_ZONE = """\
# An area as a polygon in fractions of the frame: [0, 0] is the top left, [1, 1] the bottom right. Draw your own. An
# object that has been in it for `dwell` is reported again.
- zones:
    area: {polygon: [[0.25, 0.25], [0.75, 0.25], [0.75, 0.95], [0.25, 0.95]], dwell: 10s}"""
_EVENTS = """\
# An image of each object when it is first seen, and again when it is seen better. At most 1000, so that a busy day does
# not fill the disk.
- snapshots: {path: "out/{stream}-{track}.jpg", on: track, crop: true, better: 2, limit: 1000}"""
_VIDEO = """\
- draw
- video: {path: "out/{stream}.mp4"}"""
