"""`combine`: sequences, things at the same time, numbers, and what does not happen, at any frame rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph.site import Site
from sightline.media import Batch, Event, Part
from sightline.testing import make_batches, make_frames
from sightline_plugins import Combine

Happening = tuple[float, Event]
Found = list[tuple[float, dict[str, Any]]]


def enter(zone: str, track_id: int, at: float) -> Happening:
    return at, Event("zone", zone, 0, {"direction": "enter", "track_id": track_id}, "zones-1", Part.BEGIN, track_id)


def leave(zone: str, track_id: int, at: float) -> Happening:
    return at, Event("zone", zone, 0, {"direction": "leave", "track_id": track_id}, "zones-1", Part.END, track_id)


def cross(line: str, track_id: int, at: float, direction: str = "in") -> Happening:
    return at, Event("line", line, 0, {"direction": direction, "track_id": track_id}, "lines-1")


def batches(happenings: list[Happening], *, seconds: float, fps: int, stream: str = "cam") -> list[Batch]:
    """Frames on which things happen: each on the first frame that is not before it."""
    found = []
    for batch in make_batches(make_frames(int(seconds * fps), fps=fps, stream=stream, size_wh=(16, 16))):
        (frame,) = batch.frames
        own = [event for at, event in happenings if frame.index == -int(-at * fps // 1)]
        found.append(batch.with_events(own))
    return found


def run(rule: object, happenings: list[Happening], *, seconds: float = 20, fps: int = 5) -> Found:
    """What a rule reports, with the time of the frame."""
    operator = Combine.model_validate({"it": rule}).build(Site(device=Device()))
    return [
        (round(batch.frames[0].pts_seconds, 2), dict(event.data))
        for batch in batches(happenings, seconds=seconds, fps=fps)
        for event in operator.process(batch).events
        if event.kind == "combined"
    ]


@pytest.mark.parametrize("fps", [1, 5, 30])
def test_one_thing_after_another_within_a_time(fps: int) -> None:
    story = [
        enter("a", 1, 1),
        enter("b", 1, 4),  # in time
        enter("b", 1, 6),  # nothing before it: the first one is used up
        enter("a", 2, 8),
        enter("b", 2, 15),  # too late
    ]

    found = run({"when": "zones.a.enter then zones.b.enter", "within": "5s"}, story, fps=fps)

    assert found == [(4, {"seconds": 3, "track_id": 1})]


def test_a_sequence_of_the_same_object() -> None:
    story = [enter("a", 1, 1), enter("b", 2, 2), enter("a", 3, 3), enter("b", 3, 4), enter("b", 1, 5)]

    same = run({"when": "zones.a.enter then zones.b.enter", "same_track": True}, story)
    any_one = run("zones.a.enter then zones.b.enter", story)

    assert same == [(4, {"seconds": 1, "track_id": 3}), (5, {"seconds": 4, "track_id": 1})]
    assert any_one == [(2, {"seconds": 1, "track_id": 2}), (4, {"seconds": 1, "track_id": 3})]


def test_three_steps_with_alternatives_and_a_newer_beginning() -> None:
    story = [cross("x", 1, 1), cross("x", 1, 9), cross("y", 1, 10), cross("z", 1, 12), cross("z", 1, 13)]

    found = run("lines.x then (lines.y or lines.q) then lines.z within 4s", story)

    assert found == [(12, {"seconds": 3, "track_id": 1})]


@pytest.mark.parametrize("fps", [1, 5, 30])
def test_two_kinds_at_the_same_time(fps: int) -> None:
    story = [
        enter("dogs", 1, 1),
        enter("people", 2, 3),
        enter("people", 3, 4),
        leave("people", 2, 5),
        leave("people", 3, 7),
        leave("dogs", 1, 9),
    ]

    both = run("zones.dogs.enter and zones.people.enter", story, fps=fps)
    alone = run("zones.dogs.enter and not zones.people.enter", story, fps=fps)

    assert both == [(3, {"state": "begun"}), (7, {"state": "ended", "seconds": 4})]
    assert alone == [
        (1, {"state": "begun"}),
        (3, {"state": "ended", "seconds": 2}),
        (7, {"state": "begun"}),
        (9, {"state": "ended", "seconds": 2}),
    ]


@pytest.mark.parametrize("fps", [1, 5, 30])
def test_often_within_a_time(fps: int) -> None:
    story = [cross("gate", number, at) for number, at in enumerate((1, 4, 6, 7, 8))]

    found = run("count(lines.gate.in) >= 3 within 4s", story, fps=fps)

    assert found == [(7, {"state": "begun"}), (10, {"state": "ended", "seconds": 3})]


def test_something_without_something_else_before_or_after() -> None:
    """Who crosses the gate without the light having turned green in the last five seconds."""
    story = [cross("green", -1, 2), cross("gate", 1, 4), cross("gate", 2, 9)]

    found = run("lines.gate.in within 200ms and not lines.green within 5s", story)

    assert found == [(9, {"state": "begun"}), (9.2, {"state": "ended", "seconds": 0.2})]


def test_the_end_of_something_is_an_event_too() -> None:
    story = [enter("a", 1, 1), leave("a", 1, 4), enter("a", 2, 8)]

    assert run("zones.a.leave", story) == [(4, {"seconds": 0, "track_id": 1})]
    assert run("zones.a", story) == [(1, {"seconds": 0, "track_id": 1}), (8, {"seconds": 0, "track_id": 2})]
    assert run("zones.a.leave then zones.a.enter", story) == [(8, {"seconds": 4, "track_id": 2})]


def test_streams_are_apart() -> None:
    operator = Combine.model_validate({"it": "zones.a.enter then zones.b.enter"}).build(Site(device=Device()))
    one = batches([enter("a", 1, 1)], seconds=3, fps=5)
    other = batches([enter("b", 1, 2)], seconds=3, fps=5, stream="other")

    for pair in zip(one, other, strict=True):
        assert all(event.kind == "zone" for batch in pair for event in operator.process(batch).events)


PIPELINE = """
sources: {{clip: {{pattern: moving, frames: 5}}}}
pipeline:
  - detect: {{model: {model}}}
  - track
  - zones: {{gate: {{polygon: [[0, 0], [1, 0], [1, 1]]}}}}
  - combine: {{it: {when}}}
"""


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (
            "zones.gaet.enter and zones.gate.enter",
            "combine.it.when: no step before it has the rule 'zones.gaet.enter'; did you mean",
        ),
        ("zones.gate.enter annd zones.gate.leave", "pipeline.3.combine.it: at character 18, 'annd'"),
        ("{when: zones.gate.enter, same_track: true}", "same_track is for sequences"),
        ("{when: zones.gate.enter, schedule: mon-fry}", "'fry' is no day"),
        ("[zones.gate.enter]", "neither an expression"),
    ],
)
def test_a_wrong_expression_is_found_before_anything_runs(
    when: str, message: str, tmp_path: Path, repository: Path
) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(when=when, model=repository / "models" / "street.onnx"))

    with pytest.raises(ConfigurationError) as caught:
        Pipeline.from_yaml(file)

    assert message in str(caught.value)
