"""The contract of trackers, as a test class that any tracker can be put through.

    class TestMyTracker(TrackerConformance):
        options = MyTrackerOptions()

An assertion that fails says in a sentence which promise was broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import NO_TRACK, Tracker, TrackerOptions
from sightline.media.boxes import Boxes

FRAME_NS = 40_000_000
Ids = npt.NDArray[np.int64]


class TrackerConformance:
    """Tests of the `Tracker` contract. A subclass sets `options`; pytest collects it by its name."""

    options: ClassVar[TrackerOptions]
    frames: ClassVar[int] = 12

    def test_options_are_a_value(self) -> None:
        """Options are frozen, and what they are written as reads back equal."""
        written = self.options.model_dump(mode="json")
        assert type(self.options).model_validate(written) == self.options, f"does not read back equal from {written}"
        assert self.options.model_config.get("frozen"), "options of a tracker must be frozen"

    def test_two_objects_keep_their_ids(self) -> None:
        """Objects that move slowly and apart from each other get two ids and keep them."""
        ids = np.array(list(self.run(self.options.build())))[-3:]
        assert (ids > 0).all(), f"steady objects were not tracked: {ids.tolist()}"
        assert (ids == ids[-1]).all(), f"ids of steady objects changed: {ids.tolist()}"
        assert ids[-1, 0] != ids[-1, 1], "two objects have one id"

    def test_ids_are_those_of_the_rows(self) -> None:
        """Detections in another order get the same ids, in that order."""
        plain, swapped = list(self.run(self.options.build())), list(self.run(self.options.build(), swapped=True))
        assert {*plain[-1]} == {*swapped[-1]}
        kept = self.options.build()
        list(self.run(kept))
        xyxy, confidence, class_id = self.detections(self.frames)
        ids = kept.update(xyxy[::-1], confidence, class_id, pts_ns=self.frames * FRAME_NS)
        assert ids.tolist() == plain[-1][::-1].tolist(), "ids do not follow the rows of the detections"

    def test_ids_count_from_the_first_id(self) -> None:
        """The first track gets `first_id`, and no id is left out."""
        for first in (1, 7):
            found = sorted({int(one) for ids in self.run(self.options.build(first_id=first)) for one in ids if one > 0})
            assert found == [first, first + 1], f"ids {found} do not count from {first}"

    def test_two_runs_are_equal(self) -> None:
        """The same detections give the same ids."""
        one, other = self.run(self.options.build()), self.run(self.options.build())
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True)), "two runs differ"

    def test_frames_without_detections_are_taken(self) -> None:
        """A frame without a detection gives no id and does no harm."""
        tracker = self.options.build()
        nothing = np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int64)
        assert tracker.update(*nothing, pts_ns=0).shape == (0,)
        list(self.run(tracker))
        assert tracker.update(*nothing, pts_ns=self.frames * FRAME_NS).shape == (0,)

    def test_time_may_stand_still_and_run_backward(self) -> None:
        """Equal or earlier times raise nothing, and ids stay unique on a frame."""
        tracker = self.options.build()
        for pts_ns in (0, 0, FRAME_NS, 0, 2 * FRAME_NS):
            ids = tracker.update(*self.detections(0), pts_ns=pts_ns)
            known = ids[ids != NO_TRACK]
            assert len(set(known.tolist())) == len(known), "an id appears twice on a frame"

    def test_ids_are_unique_in_a_crowd(self) -> None:
        """Objects that cross, go missing and come back: no id is twice on a frame, and two runs are equal."""
        found = []
        for _ in range(2):
            tracker, ids = self.options.build(), []
            for number, given in enumerate(self.crowd()):
                ids.append(tracker.update(*given, pts_ns=number * FRAME_NS))
                known = ids[-1][ids[-1] != NO_TRACK]
                assert len(set(known.tolist())) == len(known), f"an id appears twice on frame {number}"
                expected = tracker.predict(pts_ns=number * FRAME_NS + FRAME_NS // 2)
                assert np.isfinite(expected.xyxy).all(), f"predicted boxes after frame {number} are not finite"
            found.append(np.concatenate(ids))
        assert np.array_equal(found[0], found[1]), "two runs differ"
        assert (found[0] != NO_TRACK).any(), "nothing was tracked"

    def test_a_long_gap_is_survived(self) -> None:
        """After an hour without a frame objects are tracked again, and none gets the id of another one."""
        tracker = self.options.build()
        before = np.array(list(self.run(tracker)))[-1]
        after = np.array(list(self.run(tracker, since_ns=3_600_000_000_000)))
        assert (after[-1] > 0).all(), f"objects were not tracked after a gap: {after.tolist()}"
        assert (after[-1] == after[-2]).all(), f"ids of steady objects changed after a gap: {after.tolist()}"
        swapped = after[-1] == before[::-1]
        assert not swapped.any(), "an object got the id of another one"

    def test_frames_that_no_detector_looked_at_may_lie_between(self) -> None:
        """With detections on every third frame steady objects keep their ids; in between they are expected once."""
        tracker, ids = self.options.build(), []
        for number in range(3 * self.frames):
            if number % 3 == 0:
                ids.append(tracker.update(*self.detections(number), pts_ns=number * FRAME_NS))
            else:
                expected = tracker.predict(pts_ns=number * FRAME_NS)
                assert len(set(expected.track_id.tolist())) == len(expected.track_id), "an id is expected twice"
                assert np.isfinite(expected.xyxy).all(), "predicted boxes are not finite"
        assert (ids[-1] > 0).all(), f"steady objects were not tracked: {ids[-1].tolist()}"
        assert np.array_equal(ids[-1], ids[-2]), f"ids of steady objects changed: {ids[-2:]}"

    def test_arrays_passed_in_are_not_changed(self) -> None:
        """Read-only arrays are enough."""
        tracker = self.options.build()
        for number in range(self.frames):
            given = self.detections(number)
            for column in given:
                column.flags.writeable = False
            tracker.update(*given, pts_ns=number * FRAME_NS)

    def test_predictions_are_columns_of_one_length_and_change_nothing(self) -> None:
        """Predicting gives known ids and leaves the tracker as it is."""
        plain, asked = self.options.build(), self.options.build()
        for number in range(self.frames):
            given = self.detections(number)
            one = plain.update(*given, pts_ns=number * FRAME_NS)
            two = asked.update(*given, pts_ns=number * FRAME_NS)
            assert np.array_equal(one, two), "predicting changed the ids that follow"
            expected = asked.predict(pts_ns=number * FRAME_NS + FRAME_NS // 2)
            assert expected.xyxy.shape == (len(expected.track_id), 4)
            assert len(expected.confidence) == len(expected.class_id) == len(expected.track_id)
            assert (expected.track_id > 0).all(), "a prediction has no id"

    def test_streams_together_get_what_each_gets_alone(self) -> None:
        """Frames of three streams, some of which have several in a batch, get the ids of one update after another."""
        frames, random = list(self.crowd()), np.random.default_rng(1)
        alone, together = ([self.options.build() for _ in range(3)] for _ in range(2))
        shown = [0, 0, 0]
        while min(shown) < len(frames) // 2:
            streams = random.integers(0, 3, random.integers(1, 6)).tolist()
            given, times, expected = [], [], []
            for stream in streams:
                given.append(frames[shown[stream] % len(frames)])
                times.append(shown[stream] * FRAME_NS)
                shown[stream] += 1
                expected.append(alone[stream].update(*given[-1], pts_ns=times[-1]))
            columns = [np.concatenate(column) for column in zip(*given, strict=True)]
            ends = np.cumsum([len(xyxy) for xyxy, _, _ in given]).tolist()
            own = [together[stream] for stream in streams]
            ids = type(own[0]).update_batch(own, *columns, ends=ends, pts_ns=times)
            assert ids.dtype == np.int64, f"ids are {ids.dtype}, not int64"
            assert np.array_equal(ids, np.concatenate(expected)), "streams together get other ids than each alone"

    def test_matches_tell_of_every_detection(self) -> None:
        """Where the options say so, a track has one number, before it has its id and after."""
        if not self.options.tells_matches:
            return
        tracker = self.options.build()
        numbers: dict[int, int] = {}
        for number, given in enumerate(self.crowd()):
            ids = tracker.update(*given, pts_ns=number * FRAME_NS)
            matches = tracker.matches()
            assert matches.number.shape == matches.certainty.shape == ids.shape, "matches are not one a detection"
            known = matches.number[matches.number != NO_TRACK]
            assert len(set(known.tolist())) == len(known), f"a track has two detections on frame {number}"
            assert (matches.number[ids != NO_TRACK] != NO_TRACK).all(), "an object with an id has no number"
            certainty = matches.certainty[~np.isnan(matches.certainty)]
            assert ((certainty >= 0) & (certainty <= 1)).all(), "a certainty is not from 0 to 1"
            for own_id, own_number in zip(ids.tolist(), matches.number.tolist(), strict=True):
                if own_id != NO_TRACK:
                    assert numbers.setdefault(own_id, own_number) == own_number, f"the number of track {own_id} changed"
        assert len(set(numbers.values())) == len(numbers), "two tracks have one number"

    def detections(self, number: int) -> tuple[Boxes, npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return the two objects of frame `number`: boxes, confidences, classes."""
        xyxy = np.array([[10, 10, 50, 90], [200, 20, 260, 80]], np.float32) + np.float32(number)
        return xyxy, np.array([0.9, 0.9], np.float32), np.zeros(2, np.int64)

    def crowd(self) -> Iterator[tuple[Boxes, npt.NDArray[np.float32], npt.NDArray[np.int64]]]:
        """Yield the detections of 40 frames: 30 objects in one place, of any confidence, one in ten missing."""
        random = np.random.default_rng(0)
        place, velocity = random.uniform(0, 200, (30, 2)), random.normal(0, 4, (30, 2))
        for number in range(40):
            corner = place + velocity * number + random.normal(0, 1, place.shape)
            xyxy = np.concatenate([corner, corner + np.array([30, 60])], axis=1)[random.random(30) < 0.9].astype(
                np.float32
            )
            yield xyxy, random.uniform(0, 1, len(xyxy)).astype(np.float32), np.zeros(len(xyxy), np.int64)

    def run(self, tracker: Tracker, *, swapped: bool = False, since_ns: int = 0) -> Iterator[Ids]:
        """Yield the ids of each frame; the first is at `since_ns`."""
        for number in range(self.frames):
            xyxy, confidence, class_id = self.detections(number)
            now_ns = since_ns + number * FRAME_NS
            ids = tracker.update(xyxy[::-1] if swapped else xyxy, confidence, class_id, pts_ns=now_ns)
            assert ids.shape == (2,), f"ids have shape {ids.shape}, not (2,)"
            assert ids.dtype == np.int64, f"ids are {ids.dtype}, not int64"
            yield ids
