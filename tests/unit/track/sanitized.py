"""Random input for the C functions of trackers, in a process with a sanitized library (`tests/fakes/native_build.py`).

Sanitizers end the process at the first access outside of an array. `--wrong` lets a function write behind one.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.unit.track import rounds

from sightline.graph.tracker import TrackerOptions
from sightline_plugins import native
from sightline_plugins.flow.luma import HalvedLuma
from sightline_plugins.track import association, cascade, tracks
from sightline_plugins.track.adaptive_options import AdaptiveOptions
from sightline_plugins.track.botsort import BotSortOptions
from sightline_plugins.track.class_votes import ClassVotes, vote_together
from sightline_plugins.track.deepstream import DeepStreamOptions
from sightline_plugins.track.following import BoxFollower, ReducedImage
from sightline_plugins.track.iou import IouOptions
from sightline_plugins.track.ocsort import OCSortOptions
from sightline_plugins.track.sort import SortOptions

ODD = (np.nan, np.inf, -np.inf, 1e38, -1e38, 1e7, 0.0, 1e-40)
CLASSES = (0, 1, -1, 2**63 - 1, -(2**63))
FRAME_NS = 40_000_000
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"calibrate": False},
    {"min_hits": 1, "max_lost": 100_000_000},
    {"low_confidence": 0.0, "new_track_threshold": 0.0, "high_confidence": 0.0},
    {"class_mismatch_weight": 0.0},
)


NAMED = (SortOptions(), IouOptions(), BotSortOptions(), OCSortOptions(), DeepStreamOptions())


def random_frame(
    random: np.random.Generator, count: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Return boxes (N, 4), confidences (N,) and classes (N,), some of them odd."""
    corner = random.uniform(-50, 400, (count, 2))
    xyxy = np.concatenate([corner, corner + random.uniform(-20, 120, (count, 2))], axis=1).astype(np.float32)
    confidence = random.uniform(-0.2, 1.2, count).astype(np.float32)
    for values in (xyxy, confidence):
        is_odd = random.random(values.shape) < 0.02
        values[is_odd] = random.choice(ODD, int(is_odd.sum()))
    return xyxy, confidence, random.choice(CLASSES, count)


def drive(random: np.random.Generator, options: dict[str, Any], counts: list[int]) -> None:
    """Feed a tracker frames of so many detections, and ask it for predictions between."""
    tracker = AdaptiveOptions(**options).build()
    pts_ns = 0
    for count in counts:
        pts_ns += int(random.choice([1, 1, 1, 0, -3, 5, 100, 10**7])) * FRAME_NS
        tracker.update(*random_frame(random, count), pts_ns=pts_ns)
        tracker.matches()
        tracker.predict(pts_ns=pts_ns + FRAME_NS)


def drive_together(random: np.random.Generator, options: TrackerOptions, largest: int) -> None:
    """Feed trackers of several streams frames of some of them at once, and let their detections vote."""
    trackers = [options.build() for _ in range(5)]
    votes = [ClassVotes() for _ in trackers]
    pts_ns = 0
    for _ in range(60):
        pts_ns += int(random.choice([1, 1, 0, -3, 100, 2000])) * FRAME_NS
        streams = random.integers(0, len(trackers), random.integers(0, 9)).tolist()
        frames = [random_frame(random, int(random.integers(0, largest + 1))) for _ in streams]
        ends, times = np.cumsum([len(xyxy) for xyxy, _, _ in frames]).tolist(), [pts_ns] * len(streams)
        none = (np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int64))
        xyxy, confidence, class_id = (np.concatenate(column) for column in zip(none, *frames, strict=True))
        own = [trackers[stream] for stream in streams]
        ids = type(trackers[0]).update_batch(own, xyxy, confidence, class_id, ends=ends, pts_ns=times)
        vote_together([votes[stream] for stream in streams], ids, class_id, confidence, ends=ends, pts_ns=times)
        votes[0].leading(ids, class_id)


def follow(random: np.random.Generator) -> None:
    """Follow odd boxes in images down to a pixel."""
    size_wh = random.integers(1, random.choice([4, 60]), 2)
    follower = BoxFollower()
    for _ in range(3):
        follower.look(ReducedImage.of(HalvedLuma(random.integers(0, 256, size_wh, np.uint8))))
        xyxy, before, expected = (random_frame(random, 20)[0] / random.choice([1, 8], (20, 1)) for _ in range(3))
        follower.moved(xyxy, before=before, expected=expected)
        follower.moved(xyxy, before=xyxy, expected=xyxy)


def main() -> None:
    """Drive everything."""
    random = np.random.default_rng(1)
    if "--wrong" in sys.argv:
        records = np.zeros(8, tracks.DETECTION)
        tracks._sort_into_bands(native.pointer(records), 9, native.pointer(np.zeros(3, np.float32)), 3, None)
    for options in OPTIONS:
        for largest in (1, 3, 30):
            drive(random, options, random.integers(0, largest + 1, 80).tolist())
        drive(random, options, [0, 300, 5, 0, 700, 300])
        for largest in (3, 40, 300):
            drive_together(random, AdaptiveOptions(**options), largest)
    for named in NAMED:
        for largest in (3, 40):
            drive_together(random, named, largest)
    drive(random, {}, [10_000, 50, 0, 10, 10_000])
    for _ in range(300):
        follow(random)
        table = random.uniform(-1, 1, random.integers(0, 12, 2)).astype(np.float32)
        table[random.random(table.shape) < random.choice([0, 0.3])] = random.choice(ODD)
        association.assign(table)
        for way in cascade.Way:
            rounds.matched(np.abs(table), least=0.1, way=way)
        rounds.matched(np.abs(table), least=0.1, preference=table)
        cascade.overlap_matrix(random_frame(random, len(table))[0], random_frame(random, 9)[0])


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
