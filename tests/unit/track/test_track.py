from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph import Site
from sightline.media import Batch, Frame, Objects, Origin
from sightline.media.batch import FrameColumns
from sightline.testing import make_frames, run_element
from sightline_plugins.track.adaptive import AdaptiveTracker
from sightline_plugins.track.adaptive_options import AdaptiveOptions
from sightline_plugins.track.algorithms import TRACKERS
from sightline_plugins.track.track import Track, TrackOperator

DETECTOR = Origin("detect", ("person", "car"))
SIZE_WH = (200, 100)


def box(index: int, *, top: float = 20) -> list[float]:
    return [10 + 3 * index, top, 50 + 3 * index, top + 40]


def walking(
    frames: Sequence[Frame], *, tops: Sequence[float] = (10, 55), confidence: float = 0.9, source: Origin = DETECTOR
) -> Objects:
    """Objects side by side that move to the right by three pixels a frame."""
    return Objects.from_columns(
        frame=np.repeat(np.arange(len(frames)), len(tops)),
        xyxy=[box(frame.index, top=top) for frame in frames for top in tops],
        confidence=np.full(len(frames) * len(tops), confidence),
        class_id=np.ones(len(frames) * len(tops)),
        source=source,
    )


def batches(count: int, *, size: int = 1, **options: Any) -> list[Batch]:
    frames = make_frames(count, size_wh=SIZE_WH)
    groups = [tuple(frames[first : first + size]) for first in range(0, count, size)]
    return [Batch(group, walking(group, **options)) for group in groups]


def ids(results: Sequence[Batch]) -> list[list[int]]:
    return [view.objects.track_id.tolist() for batch in results for view in batch]


def test_objects_keep_their_ids() -> None:
    assert ids(run_element(Track(), batches(5))) == [[1, 2]] * 5


@pytest.mark.parametrize("algorithm", TRACKERS)
@pytest.mark.parametrize("size", [2, 5])
def test_ids_do_not_depend_on_batch_size(algorithm: str, size: int) -> None:
    step = Track(algorithm=algorithm)
    assert ids(run_element(step, batches(5, size=size))) == ids(run_element(step, batches(5)))


@pytest.mark.parametrize("options", [{}, {"tracker_confidence": True, "untracked": "drop"}, {"algorithm": "bytetrack"}])
def test_streams_together_give_what_frames_one_by_one_give(options: dict[str, Any]) -> None:
    """Also with frames that no detector looked at, objects on objects, and a stream whose size changes."""
    random = np.random.default_rng(3)
    frames: list[Frame] = []
    for index in range(40):
        for stream in ("a", "b", "c") if index % 4 else ("b", "b", "a"):
            seen = sum(frame.stream.name == stream for frame in frames)
            wide = SIZE_WH if stream != "c" or seen < 12 else (100, 60)
            frames.append(make_frames(seen + 1, stream=stream, size_wh=wide)[seen])
    detected = (random.random(len(frames)) < 0.7).tolist()
    confidence = random.uniform(0.2, 0.95, len(frames)).astype(np.float32)

    def batch(first: int, last: int) -> Batch:
        own = frames[first:last]
        objects = walking(own, tops=[10, 55, 80])
        parents = np.arange(len(objects)) - 1
        objects = objects.with_columns(
            parent=np.where(np.arange(len(objects)) % 3 == 2, parents, -1).astype(np.int32),
            confidence=np.repeat(confidence[first:last], 3),
            class_id=(np.arange(3 * first, 3 * last) // 7 % 2).astype(np.int32),
        )
        looked = np.array(detected[first:last])
        columns = FrameColumns(detected=tuple(looked.tolist()))
        return dataclasses.replace(Batch(tuple(own), objects.select(looked[objects.frame])), columns=columns)

    def rows(results: Sequence[Batch]) -> list[list[tuple[object, ...]]]:
        views = [view for result in results for view in result]
        return [[(one.track_id, one.label, one.xyxy, one.attributes) for one in view.objects] for view in views]

    step, bounds = Track.model_validate(options), [0, 1, 4, 11, 12, 30, 31, 50, 70, 71, 90, 119, 120]
    together = run_element(step, [batch(first, last) for first, last in pairwise(bounds)])
    one_by_one = run_element(step, [batch(first, first + 1) for first in range(len(frames))])

    assert len(frames) == 120
    assert any(track is not None for frame in rows(one_by_one) for track, *_ in frame)
    assert rows(together) == rows(one_by_one)


def test_each_stream_counts_its_own_ids() -> None:
    frames = tuple(make_frames(1, stream=name, size_wh=SIZE_WH)[0] for name in ("a", "b"))
    assert ids(run_element(Track(), [Batch(frames, walking(frames))])) == [[1, 2], [1, 2]]


def test_ids_are_those_of_the_tracker_on_recorded_detections(shared_data: Path) -> None:
    table = np.loadtxt(shared_data / "truth" / "mot" / "TUD-Campus" / "det.txt", delimiter=",")
    frames = make_frames(71, size_wh=(8, 8))
    xyxy = np.concatenate([table[:, 2:4], table[:, 2:4] + table[:, 4:6]], axis=1).astype(np.float32)
    objects = Objects.from_columns(
        frame=table[:, 0] - 1, xyxy=xyxy, confidence=table[:, 6], class_id=np.zeros(len(table)), source=DETECTOR
    )
    tracker = AdaptiveTracker(AdaptiveOptions())
    expected = []
    for frame in frames:
        own = objects.of_frame(frame.index)
        expected.append(tracker.update(own.xyxy, own.confidence, own.class_id, pts_ns=frame.pts_ns).tolist())
    assert ids(run_element(Track(), [Batch(tuple(frames), objects)])) == expected


def test_what_is_no_track_yet_has_none() -> None:
    (start,), later = batches(1, tops=[10]), batches(3)[1:]
    assert ids(run_element(Track(), [start, *later])) == [[1], [1, -1], [1, 2]]


def test_what_is_no_track_is_left_out_when_asked() -> None:
    (start,), later = batches(1, tops=[10]), batches(3)[1:]
    assert ids(run_element(Track(untracked="drop"), [start, *later])) == [[1], [1], [1, 2]]


@pytest.mark.parametrize("algorithm", TRACKERS)
def test_objects_keep_their_ids_on_frames_without_a_look(algorithm: str) -> None:
    looked = [index % 3 == 0 for index in range(30)]
    shown = [
        batch if seen else dataclasses.replace(Batch(batch.frames), columns=FrameColumns(detected=(False,)))
        for batch, seen in zip(batches(30), looked, strict=True)
    ]
    found = ids(run_element(Track(algorithm=algorithm), shown))
    assert [sorted(each) for each in found[12:]] == [[1, 2]] * 18


def test_frames_without_a_look_get_what_the_tracker_expects() -> None:
    detected = batches(20)
    frame = make_frames(21, size_wh=SIZE_WH)[20]
    blind = dataclasses.replace(Batch((frame,)), columns=FrameColumns(detected=(False,)))
    expected = run_element(Track(), [*detected, blind])[-1].objects
    assert (expected.track_id.tolist(), expected.labels()) == ([1, 2], ["car", "car"])
    np.testing.assert_allclose(expected.xyxy[0], box(20, top=10), atol=1)


def test_expected_objects_stand_among_detected_ones_in_the_order_of_frames() -> None:
    frames = make_frames(4, size_wh=SIZE_WH)
    found = walking(frames)
    batch = dataclasses.replace(
        Batch(tuple(frames), found.select(found.frame != 2)), columns=FrameColumns(detected=(True, True, False, True))
    )
    assert ids(run_element(Track(), [batch])) == [[1, 2]] * 4


def test_expected_objects_keep_the_element_that_found_them() -> None:
    other = Origin("other", ("dog", "cat"))
    frames = make_frames(4, size_wh=SIZE_WH)
    both = Objects.concat([walking(frames[:3], tops=[10]), walking(frames[:3], tops=[55], source=other)])
    batch = dataclasses.replace(Batch(tuple(frames), both), columns=FrameColumns(detected=(True, True, True, False)))
    assert run_element(Track(), [batch])[0].objects.of_frame(3).labels() == ["car", "cat"]


def test_objects_on_objects_are_not_followed() -> None:
    frames = make_frames(1, size_wh=SIZE_WH)
    objects = walking(frames).with_columns(parent=np.array([-1, 0], np.int32))
    assert ids(run_element(Track(), [Batch(tuple(frames), objects)])) == [[1, -1]]


def test_objects_on_tracked_objects_stay_when_the_untracked_go() -> None:
    frames = make_frames(1, size_wh=SIZE_WH)
    objects = walking(frames, tops=[10, 55, 80]).with_columns(
        parent=np.array([-1, -1, 0], np.int32), confidence=np.array([0.9, 0.2, 0.9], np.float32)
    )
    assert ids(run_element(Track(untracked="drop"), [Batch(tuple(frames), objects)])) == [[1, -1]]


def test_totals_count_tracks_by_label() -> None:
    operator = Track().build(Site(device=Device()))
    assert isinstance(operator, TrackOperator)
    for batch in batches(3):
        operator.process(batch)
    assert operator.totals() == {"cam": {"car": {"tracks": 2}}}


def test_a_stream_that_ended_leaves_nothing_behind() -> None:
    operator = Track().build(Site(device=Device()))
    assert isinstance(operator, TrackOperator)
    (batch,) = batches(1)
    operator.process(batch)
    operator.end_stream(batch.frames[0].stream)
    assert operator._streams == {}


def test_confidences_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(
        ConfigurationError, match="low_confidence must not be above high_confidence or new_track_threshold"
    ):
        Track(low_confidence=0.8)


def test_when_the_size_changes_tracks_end_and_new_ones_get_new_ids() -> None:
    smaller = make_frames(12, size_wh=(100, 60))[6:]
    frames = [*make_frames(6, size_wh=SIZE_WH), *smaller]
    results = run_element(Track(), [Batch((frame,), walking([frame], tops=(10,))) for frame in frames])

    before, after = ids(results)[:6], ids(results)[6:]
    assert {number for row in before for number in row if number >= 0} == {1}
    assert {number for row in after for number in row if number >= 0} == {2}


def test_classes_of_two_elements_are_told_apart() -> None:
    other = Origin("other", ("dog", "car"))
    frames = make_frames(3, size_wh=SIZE_WH)
    last = walking(frames[2:], tops=[10], source=other).with_columns(frame=np.array([2], np.int32))
    batch = Batch(tuple(frames), Objects.concat([walking(frames[:2], tops=[10]), last]))

    (result,) = run_element(Track(class_mismatch_weight=0), [batch])

    assert result.objects.track_id.tolist() == [1, 1, -1]
    assert result.objects.labels() == ["car"] * 3
