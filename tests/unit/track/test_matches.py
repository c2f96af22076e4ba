"""What a tracker knows of detections beside their ids: how well they fit, and which tracks have no id yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sightline.errors import ConfigurationError
from sightline.graph.tracker import Tracker, TrackerOptions
from sightline.media import Batch, Event, Objects, Origin
from sightline.media.batch import FrameColumns
from sightline.media.boxes import iou_matrix, iou_pairs
from sightline.testing import make_frames, run_element
from sightline_plugins.track.algorithms import TRACKERS
from sightline_plugins.track.track import Track

DETECTOR = Origin("detect-1", ("person",))
SIZE_WH = (400, 200)


def batches(lefts: Sequence[float | None], *, size: int = 1, confidence: float = 0.9, every: int = 1) -> list[Batch]:
    """Frames with one box each at these left edges, or with none; a detector looks at one frame in `every`."""
    frames = make_frames(len(lefts), size_wh=SIZE_WH, fps=25)
    made = []
    for first in range(0, len(frames), size):
        group = frames[first : first + size]
        seen = [
            (row, left)
            for row, frame in enumerate(group)
            if (left := lefts[frame.index]) is not None and frame.index % every == 0
        ]
        objects = Objects.from_columns(
            frame=[row for row, _ in seen],
            xyxy=[[left, 40, left + 40, 120] for _, left in seen],
            confidence=np.full(len(seen), confidence),
            class_id=np.zeros(len(seen)),
            source=DETECTOR,
        )
        columns = FrameColumns(detected=tuple(frame.index % every == 0 for frame in group))
        made.append(replace(Batch(tuple(group), objects), columns=columns))
    return made


def certainties(results: Sequence[Batch]) -> list[float]:
    found: list[float] = [value for one in results for value in one.objects.extra["tracker_confidence"].tolist()]
    return found


def past(results: Sequence[Batch]) -> list[tuple[int, Event]]:
    """Events of past frames, each with the index of the frame that has it."""
    return [(one.frames[event.frame].index, event) for one in results for event in one.events]


def test_overlap_of_pairs_is_the_diagonal_of_that_of_all() -> None:
    corner = np.random.default_rng(0).uniform(0, 50, (20, 2)).astype(np.float32)
    boxes = np.concatenate([corner, corner + 30], axis=1)
    boxes[3, 2:] = boxes[3, :2]

    assert iou_pairs(boxes, boxes[::-1]).tolist() == np.diag(iou_matrix(boxes, boxes[::-1])).tolist()


@pytest.mark.parametrize("algorithm", TRACKERS)
def test_an_object_that_jumps_fits_less(algorithm: str) -> None:
    at_once: dict[str, Any] = {"probation_age": 0} if algorithm == "deepstream" else {"min_hits": 1}
    step = Track(algorithm=algorithm, tracker_confidence=True, **at_once)
    walking: list[float | None] = [20.0 + 2 * index for index in range(30)]
    jumping = [*walking[:-1], 86.0]

    steady, jumped = (certainties(run_element(step, batches(lefts))) for lefts in (walking, jumping))

    assert np.isnan(steady[0])
    assert steady[-1] > 0.85
    assert 0.2 < jumped[-1] < 0.75


def test_a_box_that_is_only_expected_gets_less_certain_with_time() -> None:
    lefts: list[float | None] = [20.0 + 2 * index for index in range(50)]
    found = certainties(run_element(Track(tracker_confidence=True), batches(lefts, every=10)))

    waiting = found[-9:]
    assert waiting == sorted(waiting, reverse=True)
    assert 0 < waiting[-1] < waiting[0] < 1


def test_without_the_option_there_is_no_attribute() -> None:
    (found,) = run_element(Track(), batches([20]))

    assert "tracker_confidence" not in found.objects.extra


@pytest.mark.parametrize("size", [1, 4, 9])
@pytest.mark.parametrize("algorithm", ["adaptive", "sort", "botsort", "bytetrack"])
def test_the_frames_before_the_id_are_told_with_it(algorithm: str, size: int) -> None:
    lefts: list[float | None] = [None, None, *(20.0 + index for index in range(7))]
    step = Track(algorithm=algorithm, past_frames=True, min_hits=4)
    # The first image with objects is not special here: an object elsewhere came and went before.
    results = run_element(step, batches([200.0, *lefts], size=size, confidence=0.95))

    with_id = [one.frames[frame].index for one in results for frame in one.objects.frame[one.objects.track_id > 0]]
    confirmed_at = min(index for index in with_id if index > 0)
    told = [(at, event, int(event.data["frame"])) for at, event in past(results) if event.data["frame"] != 0]
    assert [index for _, _, index in told] == list(range(3, confirmed_at))
    assert len(told) >= 2
    for at, event, index in told:
        assert at == confirmed_at
        assert (event.kind, event.rule) == ("track", "past_frame")
        left = 20.0 + index - 3
        assert [event.data[side] for side in ("x1", "y1", "x2", "y2")] == [left, 40, left + 40, 120]
        assert event.data["confidence"] == 0.95
        assert event.data["pts_ns"] == index * 40_000_000


def test_an_object_that_is_never_confirmed_is_not_told() -> None:
    lefts: list[float | None] = [20, 21, None, None, 200, None, None, 100, 101]
    results = run_element(Track(past_frames=True, min_hits=3), batches(lefts, confidence=0.95))

    assert past(results) == []


def test_past_frames_of_another_image_size_are_forgotten() -> None:
    small = batches([20, 22], confidence=0.95)
    frames = make_frames(4, size_wh=(800, 400), fps=25)
    large = [Batch((replace(frame, index=frame.index + 2),), small[1].objects) for frame in frames]

    told = past(run_element(Track(algorithm="sort", past_frames=True, min_hits=4), [*small, *large]))

    assert [event.data["frame"] for _, event in told] == [2, 3, 4]


class SilentOptions(TrackerOptions):
    """A tracker that says nothing of its matches."""

    name = "silent"

    def build(self, *, first_id: int = 1) -> Tracker:
        raise NotImplementedError


@pytest.mark.parametrize("option", ["tracker_confidence", "past_frames"])
def test_a_tracker_that_does_not_say_is_refused(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, Any] = {**TRACKERS, "silent": SilentOptions}
    monkeypatch.setattr("sightline_plugins.track.algorithms.TRACKERS", known)

    Track(algorithm="silent")
    with pytest.raises(ConfigurationError, match=f"{option}: the tracker silent does not say"):
        Track(algorithm="silent", **{option: True})
