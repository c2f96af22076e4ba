"""Scores and speed of the tracker beside public ones, on the public detections of the shared sequences.

    python -m benchmarks.tracking ../shared/data

Also on what weak detectors give: the same detections with confidences squeezed into 0.35 to 0.6, and people that
FastestDet finds in the images of TUD-Campus. Many of those are people behind the windows, which the truth leaves out;
so they are scored as they are and again without boxes lower than any person of the truth.

Peers that are installed are run (`pip install trackers`, or `pip install "supervision<0.28"` for its ByteTrack); for
the others the figures noted in `MEASURED` are printed. Speed is measured in turn with each peer, in one process.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import cv2
import numpy as np
import onnxruntime as ort
from benchmarks.mot_scores import SEQUENCES, Boxes, Floats, Integers, Sequence, read_sequence, score

from sightline.media.boxes import iou_matrix
from sightline_plugins.commands.evaluate.scores import TrackScores
from sightline_plugins.track.adaptive import AdaptiveOptions, AdaptiveTracker, MatchingThresholds

Step = Callable[[Boxes, int], tuple[Floats, Integers]]
"""One frame's detections and its time in nanoseconds in, boxes and their track ids (-1: none) out."""
Maker = Callable[[float], Step]
"""From the frame rate to a tracker of one sequence."""

MEASURED = {
    "supervision.ByteTrack": ((0.481, 0.596, 0.666, 7), (0.505, 0.714, 0.715, 14), (0.602, 0.299, 0.714, 0)),
    "bytetracker.BYTETracker": ((0.457, 0.496, 0.566, 3), (0.508, 0.681, 0.709, 12), (0.624, 0.500, 0.778, 0)),
    "trackers.ByteTrackTracker": ((0.468, 0.579, 0.603, 5), (0.528, 0.706, 0.760, 14), (0.582, 0.528, 0.717, 1)),
    "trackers.CBIoUTracker": ((0.533, 0.618, 0.744, 6), (0.539, 0.714, 0.794, 13), (0.667, 0.597, 0.813, 0)),
    "trackers.OCSORTTracker": ((0.488, 0.571, 0.680, 3), (0.511, 0.686, 0.737, 14), (0.661, 0.681, 0.832, 0)),
    "trackers.BoTSORTTracker": ((0.534, 0.632, 0.745, 4), (0.536, 0.715, 0.790, 13), (0.667, 0.597, 0.813, 0)),
    "trackers.SORTTracker": ((0.441, 0.563, 0.553, 8), (0.520, 0.705, 0.758, 12), (0.625, 0.479, 0.765, 0)),
}
"""HOTA, MOTA, IDF1 and identity switches of public trackers on `SEQUENCES`, each with its default parameters.

trackers 2.6.1, supervision 0.26.1, bytetracker 0.3.2; the last gives its filter's boxes instead of the detections.
"""


def ours(options: AdaptiveOptions | None = None, thresholds: MatchingThresholds | None = None) -> Maker:
    """Return a maker of this project's tracker."""

    def make(_fps: float) -> Step:
        tracker = AdaptiveTracker(options or AdaptiveOptions(), thresholds=thresholds)

        def step(seen: Boxes, pts_ns: int) -> tuple[Floats, Integers]:
            track_id = tracker.update(seen.xyxy, seen.confidence, np.zeros(len(seen.xyxy), np.int64), pts_ns=pts_ns)
            return seen.xyxy, track_id

        return step

    return make


def installed_peers() -> dict[str, Maker]:
    """Public trackers that can be run here."""
    if find_spec("supervision") is None:
        return {}
    peers: dict[str, Maker] = {}
    if find_spec("trackers") is not None:
        package = import_module("trackers")
        for name in ("ByteTrackTracker", "CBIoUTracker", "OCSORTTracker", "BoTSORTTracker", "SORTTracker"):
            peers[f"trackers.{name}"] = _peer(getattr(package, name), method="update")
    if (byte_track := getattr(import_module("supervision"), "ByteTrack", None)) is not None:
        peers["supervision.ByteTrack"] = _peer(byte_track, method="update_with_detections")
    return peers


def _peer(tracker_class: Callable[..., object], *, method: str) -> Maker:
    detections_class: Any = import_module("supervision").Detections

    def make(fps: float) -> Step:
        update = getattr(tracker_class(frame_rate=fps), method)

        def step(seen: Boxes, _pts_ns: int) -> tuple[Floats, Integers]:
            class_id = np.zeros(len(seen.xyxy), np.int64)
            found = update(detections_class(xyxy=seen.xyxy, confidence=seen.confidence, class_id=class_id))
            return found.xyxy, found.tracker_id

        return step

    return make


def tracks_of(sequence: Sequence, maker: Maker, *, every: int = 1) -> Boxes:
    """The boxes with an id that a tracker gives for the sequence's detections, of every so many frames."""
    step = maker(sequence.fps / every)
    rows = []
    for frame in range(1, sequence.frame_count + 1, every):
        seen = sequence.detections.where(sequence.detections.frame == frame)
        xyxy, identity = step(seen, sequence.pts_ns(frame))
        known = identity >= 0
        count = int(known.sum())
        rows.append(Boxes(np.full(count, frame), identity[known], xyxy[known], np.ones(count, np.float32)))
    return Boxes(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def scores_of(sequence: Sequence, maker: Maker, *, every: int = 1) -> TrackScores:
    """Scores of a tracker on a sequence."""
    frames = range(1, sequence.frame_count + 1, every)
    return score(tracks_of(sequence, maker, every=every), truth=sequence.truth, frames=frames)


def squeezed(sequence: Sequence, *, low: float = 0.35, high: float = 0.6) -> Sequence:
    """The sequence as a weak detector would see it: confidences mapped linearly from 0..1 to `low`..`high`."""
    detections = sequence.detections
    confidence = (low + (high - low) * detections.confidence).astype(np.float32)
    return replace(sequence, detections=detections._replace(confidence=confidence))


def seen_by_fastestdet(sequence: Sequence, *, images: Path, model: Path, least: float = 0.3) -> Sequence:
    """The sequence with the people that FastestDet finds in its images, by plain ONNX Runtime."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    columns = []
    for frame, path in enumerate(sorted(images.glob("*.jpg")), 1):
        xyxy, confidence = _people(session, cv2.imread(str(path)), least=least)
        number = np.full(len(xyxy), frame)
        columns.append(Boxes(number, number, xyxy, confidence))
    return replace(sequence, detections=Boxes(*(np.concatenate(column) for column in zip(*columns, strict=True))))


def _people(session: Any, image: Any, *, least: float) -> tuple[Floats, Floats]:
    height, width = image.shape[:2]
    small = cv2.resize(image, (352, 352), interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    cells = session.run(None, {"input.1": small.transpose(2, 0, 1)[None]})[0][0]
    score = cells[0] ** 0.6 * cells[5:].max(axis=0) ** 0.4
    row, column = ((score >= least) & (cells[5:].argmax(axis=0) == 0)).nonzero()
    count = len(score)
    centre = (np.stack([column, row]) + np.tanh(cells[1:3, row, column])) / count
    half = 0.5 / (1 + np.exp(-cells[3:5, row, column]))
    xyxy = (np.concatenate([centre - half, centre + half]).T * [width, height, width, height]).astype(np.float32)
    order = np.argsort(-score[row, column], kind="stable")
    xyxy, confidence = xyxy[order], score[row, column][order]
    overlap = iou_matrix(xyxy, xyxy)
    kept: list[int] = []
    for index in range(len(order)):
        if not (overlap[index, kept] > 0.45).any():
            kept.append(index)
    return xyxy[kept], confidence[kept]


def as_tall_as_the_truth(sequence: Sequence) -> Sequence:
    """Without the detections lower than any box of the truth, which does not say what they are."""
    detections, truth = sequence.detections.xyxy, sequence.truth.xyxy
    least = (truth[:, 3] - truth[:, 1]).min()
    return replace(sequence, detections=sequence.detections.where(detections[:, 3] - detections[:, 1] >= least))


def milliseconds_a_frame(sequence: Sequence, maker: Maker) -> float:
    """Time of one pass, frames already cut out."""
    frames = [
        (sequence.detections.where(sequence.detections.frame == frame), sequence.pts_ns(frame))
        for frame in range(1, sequence.frame_count + 1)
    ]
    step = maker(sequence.fps)
    started = time.perf_counter()
    for seen, pts_ns in frames:
        step(seen, pts_ns)
    return (time.perf_counter() - started) / len(frames) * 1e3


def print_scores(sequences: list[Sequence], *, peers: dict[str, Maker]) -> None:
    """One line a tracker: HOTA, MOTA, IDF1 and identity switches for each sequence."""
    print(f"{'':34}" + "".join(f"{sequence.name:>28}" for sequence in sequences))
    print(f"{'':34}" + f"{'HOTA':>9} {'MOTA':>5} {'IDF1':>5} {'IDsw':>5} " * len(sequences))
    for name, maker in {"sightline": ours(), "sightline, every 2nd frame": ours()}.items():
        every = 2 if "2nd" in name else 1
        _print_line(name, [scores_of(sequence, maker, every=every) for sequence in sequences])
    for name, measured in MEASURED.items():
        if name in peers:
            _print_line(name, [scores_of(sequence, peers[name]) for sequence in sequences])
        else:
            _print_line(f"{name} (noted)", [TrackScores(*figures, false=0, missed=0) for figures in measured])


def _print_line(name: str, scores: list[TrackScores]) -> None:
    cells = (f"{one.hota:9.3f} {one.mota:5.3f} {one.idf1:5.3f} {one.switches:5d} " for one in scores)
    print(f"{name:34}" + "".join(cells))


def print_weak(sequences: list[Sequence], *, shared: Path) -> None:
    """Scores on weak detections: with the defaults, and with births at 0.7 only."""
    images, model = shared / "truth" / "mot" / "TUD-Campus" / "img1", shared / "models" / "FastestDet.onnx"
    fastestdet = seen_by_fastestdet(sequences[0], images=images, model=model)
    weak = [*map(squeezed, sequences), fastestdet, as_tall_as_the_truth(fastestdet)]
    print("\nsqueezed into 0.35 to 0.6 (three sequences); FastestDet on TUD-Campus: all boxes, as tall as the truth's")
    _print_line("sightline", [scores_of(sequence, ours()) for sequence in weak])
    sure = ours(AdaptiveOptions(new_track_threshold=0.7))
    _print_line("sightline, new_track_threshold 0.7", [scores_of(sequence, sure) for sequence in weak])


def print_speed(sequences: list[Sequence], *, peers: dict[str, Maker], rounds: int = 9) -> None:
    """Median of rounds in which every tracker runs once, and the median ratio of each peer's time to ours."""
    for sequence in sequences:
        per_frame = len(sequence.detections.frame) / sequence.frame_count
        print(f"\n{sequence.name}, {per_frame:.1f} boxes a frame, milliseconds a frame")
        all_of_them = {"sightline": ours(), **peers}
        passes = [
            {name: milliseconds_a_frame(sequence, maker) for name, maker in all_of_them.items()} for _ in range(rounds)
        ]
        for name in all_of_them:
            ratio = median(one[name] / one["sightline"] for one in passes)
            print(f"  {name:30} {median(one[name] for one in passes):7.3f}   {ratio:5.1f} x ours")


def main(shared: Path) -> None:
    """Print scores and speed for the sequences in the folder of shared data."""
    warnings.simplefilter("ignore")  # the peers deprecate themselves at length
    sequences = [read_sequence(shared / "truth" / "mot" / name) for name in SEQUENCES]
    peers = installed_peers()
    print_scores(sequences, peers=peers)
    print_weak(sequences, shared=shared)
    print_speed(sequences, peers=peers)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
