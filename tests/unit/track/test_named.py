"""The trackers of the literature: the scores of their reference implementations, and what each of them is known for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from benchmarks.tracking.contestants import noted, own, scores_of
from benchmarks.tracking.scenes import made
from benchmarks.tracking.sequences import SEQUENCES, Floats, Sequence, read_sequence

from sightline.graph.tracker import Tracker, TrackerOptions
from sightline.media.boxes import iou_matrix
from sightline.testing.tracker_conformance import TrackerConformance
from sightline_plugins.track.botsort import BotSortOptions
from sightline_plugins.track.bytetrack import ByteTrackOptions
from sightline_plugins.track.cbiou import CBIouOptions
from sightline_plugins.track.iou import IouOptions
from sightline_plugins.track.ocsort import OCSortOptions
from sightline_plugins.track.sort import SortOptions

REFERENCE = {
    SortOptions: "trackers.SORTTracker",
    ByteTrackOptions: "trackers.ByteTrackTracker",
    OCSortOptions: "trackers.OCSORTTracker",
    CBIouOptions: "trackers.CBIoUTracker",
    BotSortOptions: "trackers.BoTSORTTracker",
}
ALIKE = 0.005
NAMED = [IouOptions, *REFERENCE]
FRAME_NS = 40_000_000
Row = tuple[float, ...]
"""A box, and its confidence where that is not 0.9."""
BOX: Row = (100, 100, 140, 200)


class TestIou(TrackerConformance):
    options = IouOptions()


class TestSort(TrackerConformance):
    options = SortOptions()


class TestByteTrack(TrackerConformance):
    options = ByteTrackOptions()


class TestBotSort(TrackerConformance):
    options = BotSortOptions()


class TestCBIou(TrackerConformance):
    options = CBIouOptions()


class TestOCSort(TrackerConformance):
    options = OCSortOptions()


class TestSortThatConfirmsAtOnce(TrackerConformance):
    options = SortOptions(min_hits=1)


def update(tracker: Tracker, *rows: Row, pts_ns: int) -> list[int]:
    boxes = np.array([row[:4] for row in rows], np.float32).reshape(-1, 4)
    confidence = np.array([row[4] if len(row) > 4 else 0.9 for row in rows], np.float32)
    ids: list[int] = tracker.update(boxes, confidence, np.zeros(len(rows), np.int64), pts_ns=pts_ns).tolist()
    return ids


def ids_of(options: TrackerOptions, frames: Iterable[Iterable[Row]]) -> list[list[int]]:
    """Return the ids of each frame, 40 ms apart."""
    tracker = options.build()
    return [update(tracker, *rows, pts_ns=number * FRAME_NS) for number, rows in enumerate(frames)]


def at(x: float, confidence: float = 0.9, *, y: float = 100) -> Row:
    """Return a detection, 40 pixels wide and 100 high."""
    return x, y, x + 40, y + 100, confidence


@pytest.fixture(scope="module", params=SEQUENCES)
def sequence(request: pytest.FixtureRequest, shared_data: Path) -> Sequence:
    return read_sequence(shared_data / "truth" / "mot" / request.param)


def assert_alike(sequence: Sequence, options: type[TrackerOptions], *, step: int) -> None:
    scores = scores_of(sequence.thinned(step), own(options().build))
    hota, _, idf1, _ = noted()["scores"][REFERENCE[options]][f"{sequence.name}/{step}"]
    assert scores.hota == pytest.approx(hota, abs=ALIKE)
    assert scores.idf1 == pytest.approx(idf1, abs=ALIKE)


@pytest.mark.parametrize("step", [1, 2, 3, 6])
@pytest.mark.parametrize("options", REFERENCE)
def test_scores_are_those_of_the_reference_implementation(
    sequence: Sequence, options: type[TrackerOptions], step: int
) -> None:
    assert_alike(sequence, options, step=step)


@pytest.mark.parametrize("scene", [("side", "weak"), ("drive", "strong"), ("street", "fair")])
@pytest.mark.parametrize("options", REFERENCE)
def test_scores_of_made_scenes_are_those_of_the_reference_implementation(
    scene: tuple[str, str], options: type[TrackerOptions]
) -> None:
    assert_alike(made(*scene), options, step=1)


@dataclass(slots=True)
class Chain:
    """Detections of one object, as the IOU paper keeps them."""

    xyxy: Floats
    best: float
    track_id: int = -1


def ids_of_the_paper(frames: Iterable[tuple[Floats, Floats]]) -> list[list[int]]:
    """Return the ids of each frame by the loops of the IOU paper (algorithm 1), from the detection that confirms on."""
    active: list[Chain] = []
    latest, found = 0, []
    for xyxy, confidence in frames:
        overlap = iou_matrix(np.array([one.xyxy for one in active], np.float32).reshape(-1, 4), xyxy)
        ids, left, going = [-1] * len(xyxy), [*range(len(xyxy))], []
        for row, chain in enumerate(active):
            best = max(left, key=lambda column: overlap[row, column], default=None)
            if best is not None and overlap[row, best] >= 0.5:
                left.remove(best)
                going.append(Chain(xyxy[best], max(chain.best, confidence[best]), chain.track_id))
                if going[-1].track_id < 0 and going[-1].best >= 0.5:
                    latest += 1
                    going[-1].track_id = latest
                ids[best] = going[-1].track_id
        active = [*going, *(Chain(xyxy[column], confidence[column]) for column in left)]
        found.append(ids)
    return found


def assert_ids_of_the_paper(sequence: Sequence) -> None:
    tracker = own(IouOptions().build)(sequence.fps)
    frames = [*sequence.by_frame()]
    ids = [tracker.update(*one, sequence.pts_ns(number))[1].tolist() for number, one in enumerate(frames, 1)]

    assert ids == ids_of_the_paper(frames)


@pytest.mark.parametrize("step", [1, 2, 3, 6])
def test_ids_of_iou_are_those_of_its_paper(sequence: Sequence, step: int) -> None:
    assert_ids_of_the_paper(sequence.thinned(step))


@pytest.mark.parametrize("scene", [("crowd", "strong"), ("side", "weak"), ("street", "fair")])
def test_ids_of_iou_in_made_scenes_are_those_of_its_paper(scene: tuple[str, str]) -> None:
    assert_ids_of_the_paper(made(*scene))


@pytest.mark.parametrize("options", REFERENCE)
@pytest.mark.parametrize("fps", [4, 10, 50])
def test_a_lost_track_ends_after_a_time_whatever_the_frame_rate(options: type[TrackerOptions], fps: int) -> None:
    def ids_after(frames_missed: int) -> tuple[int, int]:
        tracker = options.model_validate({"max_lost": "500ms", "min_hits": 1}).build()
        before = [update(tracker, BOX, pts_ns=number * 10**9 // fps) for number in range(6)]
        for number in range(6, 6 + frames_missed):
            update(tracker, pts_ns=number * 10**9 // fps)
        after = [
            update(tracker, BOX, pts_ns=number * 10**9 // fps) for number in range(6 + frames_missed, 9 + frames_missed)
        ]
        return before[-1][0], after[-1][0]

    assert ids_after(fps // 2) == (1, 1)
    assert ids_after(fps // 2 + 1) == (1, 2)


@pytest.mark.parametrize("options", REFERENCE)
def test_objects_between_detections_are_expected_where_they_move(options: type[TrackerOptions]) -> None:
    tracker = options().build()
    for number in range(40):
        update(tracker, at(100 + 10 * number), pts_ns=number * FRAME_NS)

    expected = tracker.predict(pts_ns=39 * FRAME_NS + FRAME_NS // 2)

    assert expected.track_id.tolist() == [1]
    np.testing.assert_allclose(expected.xyxy, [at(495)[:4]], atol=1)
    assert len(tracker.predict(pts_ns=39 * FRAME_NS + 2 * 10**9).track_id) == 0


@pytest.mark.parametrize("options", NAMED)
def test_detections_that_are_not_finite_are_ignored(options: type[TrackerOptions]) -> None:
    bad = (float("nan"), 0, 10, float("inf"), 0.9)

    assert [ids[0] for ids in ids_of(options(), [[bad, BOX]] * 6)] == [-1] * 6
    assert ids_of(options(), [[bad, BOX]] * 6)[-1] == [-1, 1]


@pytest.mark.parametrize("options", NAMED)
def test_boxes_without_area_do_no_harm(options: type[TrackerOptions]) -> None:
    point, inverted = (50, 50, 50, 50), (90, 90, 80, 70)

    assert ids_of(options(), [[point, inverted, BOX]] * 6)[-1][2] > 0


@pytest.mark.parametrize("options", NAMED)
def test_wrong_shapes_are_refused(options: type[TrackerOptions]) -> None:
    with pytest.raises(ValueError, match=r"must have shapes \(N, 4\), \(N,\) and \(N,\)"):
        options().build().update(np.zeros((2, 4), np.float32), np.zeros(1, np.float32), np.zeros(2, np.int64), pts_ns=0)


def test_iou_ends_a_track_at_its_first_missed_frame() -> None:
    frames = [[BOX], [BOX], [], [BOX], [BOX]]

    assert ids_of(IouOptions(), frames) == [[-1], [1], [], [-1], [2]]
    assert ids_of(IouOptions.model_validate({"max_lost": "100ms"}), frames) == [[-1], [1], [], [1], [1]]


def test_iou_confirms_a_track_by_one_detection_with_high_confidence() -> None:
    assert ids_of(IouOptions(), [[at(100, 0.4)], [at(100, 0.4)], [at(100, 0.5)], [at(100, 0.2)]]) == [
        [-1],
        [-1],
        [1],
        [1],
    ]


def test_iou_knows_no_motion() -> None:
    running = [[at(100 + 30 * number)] for number in range(8)]

    assert ids_of(IouOptions(), running)[-1] == [-1]


def test_iou_lets_the_older_track_choose() -> None:
    """By the largest sum of overlaps, the older track would take the second detection and the younger one the first."""
    assert ids_of(IouOptions(), [[at(100), at(112)]] * 3 + [[at(105), at(92)]])[-1] == [1, -1]


def test_sort_follows_motion_that_it_has_learnt() -> None:
    quicker = [[at(100 + number * (number + 1))] for number in range(12)]

    assert ids_of(SortOptions(), quicker)[-1] == [1]
    assert ids_of(IouOptions(iou_threshold=0.3), quicker)[-1] != [1]


def test_sort_begins_no_track_with_low_confidence_but_continues_one() -> None:
    assert ids_of(SortOptions(), [[at(100, 0.2)]] * 5)[-1] == [-1]
    assert ids_of(SortOptions(), [[BOX]] * 3 + [[at(100, 0.2)]] * 2)[2:] == [[1], [1], [1]]


def test_bytetrack_keeps_the_track_of_an_object_half_hidden() -> None:
    frames = [[BOX]] * 3 + [[at(100, 0.3)]] * 40 + [[BOX]]

    assert ids_of(ByteTrackOptions(), frames)[1:] == [[1]] * 43
    assert ids_of(OCSortOptions(), frames)[3:-1] == [[-1]] * 40


def test_bytetrack_begins_no_track_with_low_confidence() -> None:
    assert ids_of(ByteTrackOptions(), [[at(100, 0.65)]] * 5) == [[-1]] * 5


def test_bytetrack_matches_high_confidence_before_better_overlap() -> None:
    assert ids_of(ByteTrackOptions(), [[BOX], [BOX], [at(100, 0.5), at(110)]])[-1] == [-1, 1]
    assert ids_of(SortOptions(min_hits=2), [[BOX], [BOX], [at(100, 0.5), at(110)]])[-1] == [1, -1]


def test_botsort_confirms_the_objects_of_the_first_frame_at_once() -> None:
    other = at(400)

    assert ids_of(BotSortOptions(), [[BOX], [BOX, other], [BOX, other]]) == [[1], [1, -1], [1, 2]]


def test_botsort_finds_a_lost_track_by_high_confidence_only() -> None:
    gap: list[list[Row]] = [[BOX]] * 3 + [[]] * 2

    assert ids_of(BotSortOptions(), [*gap, [at(100, 0.5)], [BOX]])[-2:] == [[-1], [1]]
    assert ids_of(ByteTrackOptions(), [*gap, [at(100, 0.5)], [BOX]])[-2:] == [[1], [1]]


def test_botsort_weighs_overlap_by_confidence() -> None:
    frames = [[BOX], [at(100 + 22, 0.95)]], [[BOX], [at(100 + 22, 0.65)]]

    assert [ids_of(BotSortOptions(), each)[-1] for each in frames] == [[1], [-1]]


def test_botsort_measures_noise_by_the_size_of_the_box() -> None:
    path = np.cumsum(np.random.default_rng(5).normal(3, 2, 20))
    expected = []
    for scale in (1, 10):
        tracker = BotSortOptions().build()
        for number, x in enumerate(path):
            update(tracker, tuple(scale * one for one in at(x)[:4]), pts_ns=number * FRAME_NS)
        expected.append(tracker.predict(pts_ns=20 * FRAME_NS).xyxy / scale)

    np.testing.assert_allclose(expected[0], expected[1], rtol=1e-5)


def test_cbiou_finds_an_object_that_jumps_out_of_its_box() -> None:
    jump = [[BOX]] * 5 + [[at(141, 0.98)]] * 2

    assert ids_of(CBIouOptions(), jump)[-1] == [1]
    assert ids_of(BotSortOptions(), jump)[-1] == [2]
    assert ids_of(CBIouOptions(buffer=0.0, buffer_low=0.0), jump)[-1] == [2]


def test_cbiou_enlarges_low_confidence_boxes_by_more() -> None:
    still, half_hidden = [[BOX]] * 5, [[at(118, 0.5)]]

    assert ids_of(CBIouOptions(), still + half_hidden)[-1] == [1]
    assert ids_of(CBIouOptions(buffer_low=0.0), still + half_hidden)[-1] == [-1]


def test_ocsort_finds_an_object_that_stopped_while_hidden() -> None:
    run = [[at(100 + 15 * number)] for number in range(10)]
    frames = run + [[]] * 6 + [run[-1]] * 4

    assert ids_of(OCSortOptions(), frames)[-1] == [1]
    assert ids_of(SortOptions(), frames)[-1] == [2]


def test_ocsort_updates_again_along_the_way_through_a_gap() -> None:
    tracker = OCSortOptions(min_hits=1).build()
    for number in range(20):
        update(tracker, at(100 + 4 * number), pts_ns=number * FRAME_NS)
    for number in range(20, 27):
        update(tracker, pts_ns=number * FRAME_NS)
    update(tracker, at(176), pts_ns=27 * FRAME_NS)

    expected = tracker.predict(pts_ns=27 * FRAME_NS)

    assert expected.xyxy[0, 0] == pytest.approx(176, abs=1)  # the filter alone has learnt too much speed: 177.6


def test_ocsort_prefers_the_direction_in_which_a_track_went() -> None:
    walk = [[at(100 + 4 * number)] for number in range(12)]
    ahead, behind = at(148 + 14), at(148 - 13)

    assert ids_of(OCSortOptions(), [*walk, [behind, ahead]])[-1] == [-1, 1]
    assert ids_of(OCSortOptions(direction_weight=0), [*walk, [behind, ahead]])[-1] == [1, -1]


def test_ocsort_shows_an_id_again_after_as_many_detections_as_at_first() -> None:
    frames = [[BOX]] * 8 + [[]] * 2 + [[BOX]] * 3

    assert ids_of(OCSortOptions(), frames)[-3:] == [[-1], [-1], [1]]
