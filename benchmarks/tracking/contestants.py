"""Trackers that are compared: those of this project, and public ones with their default parameters.

Public trackers that are installed are run (`pip install trackers`, or `pip install "supervision<0.28"` for its
ByteTrack); of the others the figures noted in `noted.json` are used, which `--note` writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from benchmarks.tracking.sequences import Boxes, Floats, Integers, Sequence, score

from sightline.graph.tracker import Tracker
from sightline_plugins.commands.evaluate.scores import TrackScores
from sightline_plugins.track.adaptive import AdaptiveTracker
from sightline_plugins.track.adaptive_options import AdaptiveOptions, MatchingThresholds
from sightline_plugins.track.algorithms import TRACKERS

BEST_BYTETRACK = {
    "TUD-Campus": (0.481, 0.666),
    "TUD-Stadtmitte": (0.528, 0.760),
    "KITTI-0012-car": (0.624, 0.778),
}
"""The best HOTA and IDF1 of supervision 0.26.1, bytetracker 0.3.2 and trackers 2.6.1, by sequence."""


class Contestant(Protocol):
    """A tracker of one sequence; results are boxes (N, 4) and their track ids (N,), -1 for none."""

    def update(self, xyxy: Floats, confidence: Floats, pts_ns: int) -> tuple[Floats, Integers]:
        """Take the boxes (N, 4) and confidences (N,) of the next frame."""

    def expected(self, pts_ns: int) -> tuple[Floats, Integers]:
        """Say where objects are on a frame without detections."""


Maker = Callable[[float], Contestant]
"""From the frame rate to a tracker of one sequence."""

NOTED = Path(__file__).with_name("noted.json")
PUBLIC = ("ByteTrackTracker", "CBIoUTracker", "OCSORTTracker", "BoTSORTTracker", "SORTTracker")


def ours(options: AdaptiveOptions | None = None, thresholds: MatchingThresholds | None = None) -> Maker:
    """Return a maker of the default tracker."""
    return own(lambda: AdaptiveTracker(options or AdaptiveOptions(), thresholds=thresholds))


def own(build: Callable[[], Tracker]) -> Maker:
    """Return a maker of a tracker of this project."""
    return lambda _fps: _Own(build())


@dataclass(frozen=True, slots=True)
class _Own:
    tracker: Tracker

    def update(self, xyxy: Floats, confidence: Floats, pts_ns: int) -> tuple[Floats, Integers]:
        return xyxy, self.tracker.update(xyxy, confidence, np.zeros(len(xyxy), np.int64), pts_ns=pts_ns)

    def expected(self, pts_ns: int) -> tuple[Floats, Integers]:
        found = self.tracker.predict(pts_ns=pts_ns)
        return found.xyxy, found.track_id


@dataclass(slots=True)
class _Public:
    """A public tracker; none predicts, so an object stays where it was last seen."""

    detections: Any
    call: Any
    last: tuple[Floats, Integers] = (np.empty((0, 4), np.float32), np.empty(0, np.int64))

    def update(self, xyxy: Floats, confidence: Floats, _pts_ns: int) -> tuple[Floats, Integers]:
        class_id = np.zeros(len(xyxy), np.int64)
        found = self.call(self.detections(xyxy=xyxy, confidence=confidence, class_id=class_id))
        track_id = found.tracker_id
        self.last = found.xyxy, np.full(len(found.xyxy), -1) if track_id is None else track_id
        return self.last

    def expected(self, _pts_ns: int) -> tuple[Floats, Integers]:
        return self.last


def own_trackers() -> dict[str, Maker]:
    """The trackers of this project that need nothing but detections, the default first."""
    names = [name for name, options in TRACKERS.items() if not options().needs_appearance]
    names.sort(key=lambda name: (name != "adaptive", name))
    return {name: own(TRACKERS[name]().build) for name in names}


def public_trackers() -> dict[str, Maker]:
    """Public trackers that are installed here."""
    if find_spec("supervision") is None:
        return {}
    found: dict[str, Maker] = {}
    if find_spec("trackers") is not None:
        package = import_module("trackers")
        found |= {f"trackers.{name}": _public(getattr(package, name), method="update") for name in PUBLIC}
    if (byte_track := getattr(import_module("supervision"), "ByteTrack", None)) is not None:
        found["supervision.ByteTrack"] = _public(byte_track, method="update_with_detections")
    return found


def _public(tracker_class: Callable[..., object], *, method: str) -> Maker:
    detections = import_module("supervision").Detections
    return lambda fps: _Public(detections, getattr(tracker_class(frame_rate=fps), method))


def tracks_of(sequence: Sequence, maker: Maker, *, every: int = 1) -> Boxes:
    """Return the boxes with an id that a tracker gives when the detector looks at every so many frames."""
    tracker = maker(sequence.fps)
    rows = []
    for frame, (xyxy, confidence) in enumerate(sequence.by_frame(), 1):
        now = sequence.pts_ns(frame)
        found, identity = tracker.update(xyxy, confidence, now) if frame % every == 1 % every else tracker.expected(now)
        known = identity >= 0
        count = int(known.sum())
        rows.append(Boxes(np.full(count, frame), identity[known], found[known], np.ones(count, np.float32)))
    return Boxes(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def scores_of(sequence: Sequence, maker: Maker, *, every: int = 1) -> TrackScores:
    """Return the scores of a tracker on all frames of a sequence."""
    tracks = tracks_of(sequence, maker, every=every)
    return score(tracks, truth=sequence.truth, frames=range(1, sequence.frame_count + 1))


Noted = Mapping[str, Any]


def noted() -> Noted:
    """Return what `--note` wrote of public trackers: `scores` (HOTA, MOTA, IDF1 and identity switches by tracker and
    sequence) and `crossings`. trackers 2.6.1.
    """
    figures: Noted = json.loads(NOTED.read_text())
    return figures
