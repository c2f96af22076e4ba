"""Records of tracks that have ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from sightline.media import Batch, Frame, Objects, Origin
from sightline.testing import MemoryOutbox, make_frames
from sightline_plugins.delivery.tracks import MOST_TRACKS, vote, winner
from tests.unit.delivery.sending import bodies, joined, operator, sent, walk

Box = tuple[float, float, float, float]


def seen(frame: Frame, *tracks: tuple[int, Box], label: int = 0, **attributes: Any) -> Batch:
    """A batch of one frame with those tracks."""
    objects = Objects.from_columns(
        frame=[0] * len(tracks),
        xyxy=[box for _, box in tracks],
        confidence=[0.5] * len(tracks),
        class_id=[label] * len(tracks),
        track_id=np.array([track for track, _ in tracks]),
        source=Origin("detect-1", ("person", "car")),
        extra={name: np.array([value] * len(tracks)) for name, value in attributes.items()},
    )
    return Batch((frame,), objects)


def trail(points: Sequence[tuple[float, float]]) -> Iterator[Batch]:
    """One track whose feet are at those points, frame by frame."""
    for (x, y), frame in zip(points, make_frames(len(points)), strict=True):
        yield seen(frame, (1, (x - 2, y - 8, x + 2, y)))


def test_a_track_is_told_from_its_first_to_its_last_frame() -> None:
    person = bodies(walk(), send="tracks")[1]

    assert person == {
        "stream": "gate",
        "epoch": 1,
        "seq": 1,
        "record": "tracks",
        "track_id": 1,
        "label": "person",
        "class_id": 0,
        "frames": 8,
        "confidence": 0.9,
        "best_confidence": 0.9,
        "first": {"frame": 0, "pts_ns": 0, "box": [4.0, 10.0, 14.0, 40.0]},
        "last": {"frame": 7, "pts_ns": 280_000_000, "box": [11.0, 10.0, 21.0, 40.0]},
        "path": [[9.0, 40.0], [16.0, 40.0]],
        "attributes": {"color": "red"},
        "rules": ["gate_in"],
    }


def test_a_track_ends_when_it_was_not_seen_for_the_timeout() -> None:
    outbox = MemoryOutbox()
    step = operator(outbox, send="tracks", track_timeout="80ms")
    ended = []
    for batch in walk():
        step.process(batch)
        ended.append(len(outbox.records))
    step.close()

    assert ended == [0, 0, 0, 0, 0, 0, 1, 1]


def test_a_track_that_comes_back_in_time_is_one() -> None:
    first, *_, last = make_frames(4)
    box = (0.0, 0.0, 9.0, 9.0)

    assert [body["frames"] for body in bodies([seen(first, (1, box)), seen(last, (1, box))], send="tracks")] == [2]


def test_a_track_that_comes_back_too_late_is_another() -> None:
    first, *_, last = make_frames(4)
    box = (0.0, 0.0, 9.0, 9.0)
    batches = [seen(first, (1, box)), seen(last, (1, box))]

    assert [body["frames"] for body in bodies(batches, send="tracks", track_timeout="100ms")] == [1, 1]


@pytest.mark.parametrize("timeout", ["80ms", "2s"])
def test_tracks_do_not_depend_on_the_size_of_batches(timeout: str) -> None:
    options = {"send": ["tracks", "counts"], "track_timeout": timeout}

    assert [r.body for r in sent(walk(), **options)] == [r.body for r in sent([joined(walk())], **options)]


def test_a_rule_that_reports_when_the_track_has_gone_counts_for_it() -> None:
    car = bodies(walk(), send="tracks", track_timeout="160ms")[0]

    assert (car["track_id"], car["rules"]) == (2, ["plaza"])


def test_the_path_is_simplified_to_the_tolerance() -> None:
    corner = [(10.0 + 2 * min(n, 10), 10.0 + 2 * max(n - 10, 0)) for n in range(21)]

    assert bodies(trail(corner), send="tracks")[0]["path"] == [[10.0, 10.0], [30.0, 10.0], [30.0, 30.0]]


def test_the_path_can_be_that_of_another_point_of_the_box() -> None:
    assert bodies(trail([(10, 10), (20, 10)]), send="tracks", path_anchor="center")[0]["path"] == [[10, 6], [20, 6]]


def test_a_long_wild_walk_has_a_bounded_path_from_end_to_end() -> None:
    points = [(30 + 20 * np.cos(n * 0.7), 30 + 20 * np.sin(n * 1.1)) for n in range(2_000)]

    path = bodies(trail(points), send="tracks", path_points=50)[0]["path"]
    assert 2 <= len(path) <= 50
    assert path[0] == [50.0, 30.0]
    assert path[-1] == pytest.approx(points[-1], abs=0.01)


def test_label_and_attributes_are_those_seen_most_often() -> None:
    looks = [(1, "red", 3.5), (0, "blue", 4.0), (1, "red", 4.5), (1, "", float("nan"))]
    batches = [
        seen(frame, (1, (0, 0, 9, 9)), label=label, color=color, height=height)
        for frame, (label, color, height) in zip(make_frames(4), looks, strict=True)
    ]

    (body,) = bodies(batches, send="tracks")
    assert (body["label"], body["class_id"]) == ("car", 1)
    assert body["attributes"] == {"color": "red", "height": 4.0}


def test_votes_for_many_different_values_take_little_memory() -> None:
    values: dict[str, int] = {}
    for number in range(10_000):
        vote(values, "plate" if number % 3 == 0 else f"noise {number}")

    assert len(values) <= 64
    assert winner(values) == "plate"


def test_more_tracks_than_can_be_kept_end_early() -> None:
    frame = make_frames(1)[0]
    batch = seen(frame, *((track, (0.0, 0.0, 9.0, 9.0)) for track in range(MOST_TRACKS + 10)))
    outbox = MemoryOutbox()
    step = operator(outbox, send="tracks")
    step.process(batch)
    before_the_end = len(outbox.records)
    step.end_stream(frame.stream)
    step.close()

    assert before_the_end == 10
    assert len(outbox.records) == MOST_TRACKS + 10


def test_tracks_end_when_the_time_of_their_stream_goes_back() -> None:
    late, early = walk(3)[2], walk(1)[0]

    assert [body["frames"] for body in bodies([late, early], send="tracks")] == [1, 1]


def test_the_time_of_day_of_both_ends_is_told_where_it_is_known() -> None:
    batches = [
        dataclasses.replace(batch, frames=(dataclasses.replace(batch.frames[0], capture_ns=(row + 1) * 1_000_000_000),))
        for row, batch in enumerate(walk(2))
    ]

    body = bodies(batches, send="tracks")[1]
    assert (body["first"]["time"], body["last"]["time"]) == ("1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z")
