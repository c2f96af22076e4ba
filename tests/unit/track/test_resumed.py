"""Ids over a restart: an operator saves, another one restores, and goes on with the same ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sightline.graph.site import SystemClock
from sightline.media import Batch, Objects, Origin, Stream
from sightline.testing import make_frames
from sightline_plugins.track.algorithms import TRACKERS
from sightline_plugins.track.resumed import RESUMED_WITHIN_NS, SPARE_IDS
from sightline_plugins.track.track import Track, TrackOperator

DETECTOR = Origin("detect", ("person", "car"))
CAMERA = Stream("gate", live=True)
SECOND = 1_000_000_000
MOVING = [100.0, 100.0, 160.0, 220.0]
STANDING = [400.0, 200.0, 480.0, 260.0]
SIZE_WH = (640, 360)


def at(seconds: float) -> list[list[float]]:
    """A person who walks to the right by 60 pixels a second, and somebody who stands."""
    return [[MOVING[0] + 60 * seconds, MOVING[1], MOVING[2] + 60 * seconds, MOVING[3]], STANDING]


class ManualClock(SystemClock):
    """The wall's clock, which all processes see."""

    now_ns = 1_790_000_000 * SECOND

    def epoch_ns(self) -> int:
        return self.now_ns

    def advance(self, nanoseconds: int) -> None:
        self.now_ns += nanoseconds


class Run:
    """One process: an operator, and the camera that it watches; its clock is that of the wall."""

    def __init__(self, wall: ManualClock, *, size_wh: tuple[int, int] = SIZE_WH, **options: Any) -> None:
        self._wall = wall
        self._frame = replace(make_frames(1, size_wh=size_wh)[0], stream=CAMERA)
        self.operator = TrackOperator(Track(**options), clock=wall)
        self._index = 0

    def see(self, boxes: Sequence[Sequence[float]], *, label: str = "person", frames: int = 1) -> list[int]:
        """Show frames with objects at 10 frames a second; return the ids on the last one."""
        ids: list[int] = []
        for _ in range(frames):
            frame = replace(self._frame, index=self._index, pts_ns=self._index * SECOND // 10)
            objects = Objects.from_columns(
                frame=np.zeros(len(boxes)),
                xyxy=np.array(boxes, np.float32).reshape(-1, 4),
                confidence=np.full(len(boxes), 0.9),
                class_id=np.full(len(boxes), DETECTOR.labels.index(label)),
                source=DETECTOR,
            )
            ids = self.operator.process(Batch((frame,), objects)).objects.track_id.tolist()
            self._index += 1
            self._wall.advance(SECOND // 10)
        return ids

    def walk(self, seconds: float) -> list[int]:
        """Show ten frames of a second that begins then."""
        ids: list[int] = []
        for step in range(10):
            ids = self.see(at(seconds + step / 10))
        return ids

    def saved(self) -> Any:
        """What it saves, as it is in a file."""
        return json.loads(json.dumps(self.operator.save(CAMERA)))


def after(run: Run, wall: ManualClock, *, seconds: float, **options: Any) -> Run:
    """The next process, which begins so long after the other one was killed."""
    saved = run.saved()
    wall.advance(round(seconds * SECOND))
    later = Run(wall, **options)
    later.operator.restore("gate", saved)
    return later


@pytest.mark.parametrize("algorithm", TRACKERS)
def test_objects_keep_their_ids_over_a_restart(algorithm: str) -> None:
    wall = ManualClock()
    run = Run(wall, algorithm=algorithm)
    before = run.walk(0)

    later = after(run, wall, seconds=2, algorithm=algorithm)

    assert later.walk(3) == before
    assert -1 not in before


def test_what_is_new_after_a_restart_gets_an_id_that_was_never_given() -> None:
    wall = ManualClock()
    run = Run(wall)
    run.walk(0)
    later = after(run, wall, seconds=1)

    ids = later.see([*at(2), [20.0, 20.0, 60.0, 90.0]], frames=3)

    assert ids[:2] == [1, 2]
    assert ids[2] > 2 + SPARE_IDS
    again = after(later, wall, seconds=1)
    assert min(again.see([[500.0, 20.0, 560.0, 90.0]], frames=3)) > ids[2]


def test_a_track_is_resumed_once() -> None:
    wall = ManualClock()
    run = Run(wall)
    run.see([STANDING], frames=5)
    later = after(run, wall, seconds=1)

    left, right = ([value + shift for value, shift in zip(STANDING, (by, 0, by, 0), strict=True)] for by in (-8, 20))
    ids = later.see([right, left], frames=3)

    assert ids[1] == 1  # it overlaps more
    assert ids[0] > SPARE_IDS


@pytest.mark.parametrize(
    ("seconds", "label", "size_wh"),
    [(RESUMED_WITHIN_NS / SECOND, "person", SIZE_WH), (1, "car", SIZE_WH), (1, "person", (1280, 720))],
    ids=["too late", "another class", "another size"],
)
def test_another_object_is_not_taken_for_the_one_before(seconds: float, label: str, size_wh: tuple[int, int]) -> None:
    wall = ManualClock()
    run = Run(wall)
    run.see([STANDING], frames=5)

    later = after(run, wall, seconds=seconds, size_wh=size_wh)

    assert min(later.see([STANDING], label=label, frames=3)) > SPARE_IDS


def test_a_track_survives_two_restarts_while_nothing_is_detected() -> None:
    wall = ManualClock()
    run = Run(wall)
    run.see([STANDING], frames=5)
    between = after(run, wall, seconds=1)
    between.see([], frames=5)

    last = after(between, wall, seconds=1)

    assert last.see([STANDING], frames=3) == [1]


def test_the_number_of_tracks_goes_on() -> None:
    wall = ManualClock()
    run = Run(wall)
    run.walk(0)
    later = after(run, wall, seconds=1)

    later.see([*at(2), [20.0, 20.0, 60.0, 90.0]], frames=3)

    assert later.operator.totals() == {"gate": {"person": {"tracks": 3}}}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"track_id": 7},
        {"track_id": [1, 2]},
        {"track_id": [-1]},
        {"xyxy": [[0.0, 0.0, 1.0]]},
        {"latest_id": 1 << 70},
    ],
)
def test_what_was_not_saved_by_it_is_refused_and_changes_nothing(wrong: dict[str, Any]) -> None:
    wall = ManualClock()
    run = Run(wall)
    run.see([STANDING], frames=5)
    hostile = {**run.saved(), **wrong} if wrong else wrong
    later = Run(wall)

    with pytest.raises(ValueError, match="SavedTracks"):
        later.operator.restore("gate", hostile)

    assert later.see([STANDING], frames=3) == [1]
