"""What following objects in the images gains between detections: `track` with and without `visual: true`.

    python -m benchmarks.tracking.visual ../shared/data [--write]

Detections are given on every 2nd, 3rd or 5th frame, and only the frames between are scored: HOTA, IDF1, MOTA, and the
mean IoU of all boxes of the truth with the box that belongs to them (0 where there is none). Clips:

- TUD-Campus with its own truth, as its published detections and as FastestDet see it;
- real videos, whose truth is what YOLOX-nano finds and the tracker without images tracks when it looks at every frame:
  its errors are in both, so differences are smaller than they would be for the real truth;
- the sample videos with their exact truth, as a detector would see it whose boxes tremble by 4 % of their size.

Then the cost of both in turn, in milliseconds a frame.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import cv2
import numpy as np
from benchmarks.tracking.contestants import Maker, own, tracks_of
from benchmarks.tracking.page import EVERY, between_marks
from benchmarks.tracking.sequences import Boxes, Floats, Integers, read_mot, read_sequence, score
from benchmarks.tracking.sequences import Sequence as Recording
from benchmarks.tracking.speed import FPS, moving
from benchmarks.tracking.weak import seen_by_fastestdet

from sightline import Pipeline
from sightline.graph.tracker import Luma, Tracker
from sightline.media.boxes import clip, iou_matrix
from sightline.media.convert import luma_from_surface
from sightline_plugins import Detect
from sightline_plugins.track.adaptive_options import AdaptiveOptions
from sightline_plugins.track.association import assign

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "tracking.md"
BEGIN, END = "<!-- visual: begin -->", "<!-- visual: end -->"
VIDEOS: Mapping[str, float] = {
    "street-cars-640x360": 23.976,
    "one-by-one-person-detection": 10.0,
    "car-detection": 12.5,
    "bottle-detection": 29.833,
    "crowd-faces-800x450": 23.976,
}
"""Real videos, and their frames a second."""
SAMPLES: Mapping[str, float] = {"street": 25.0, "entrance": 25.0, "dusk": 15.0, "gate": 20.0}
MOST_FRAMES = 700
SURE = 0.3
"""Confidence of the detections that count as truth."""
LEAST_VISIBLE = 0.2
OFF, ON = AdaptiveOptions(), AdaptiveOptions(visual=True)
COUNTS = (5, 20, 100)
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Clip:
    """A sequence with its images."""

    recording: Recording
    images: Sequence[Luma]
    is_real: bool


@dataclass(frozen=True, slots=True)
class Between:
    """Figures of the frames between detections."""

    iou: float
    hota: float
    idf1: float
    mota: float


@dataclass(slots=True)
class _Watching:
    """A tracker that is shown the images."""

    tracker: Tracker
    images: Iterator[Luma]
    size_wh: tuple[int, int]

    def update(self, xyxy: Floats, confidence: Floats, pts_ns: int) -> tuple[Floats, Integers]:
        self.tracker.look(next(self.images))
        return xyxy, self.tracker.update(xyxy, confidence, np.zeros(len(xyxy), np.int64), pts_ns=pts_ns)

    def expected(self, pts_ns: int) -> tuple[Floats, Integers]:
        self.tracker.look(next(self.images))
        found = self.tracker.predict(pts_ns=pts_ns)
        return clip(found.xyxy, size_wh=self.size_wh), found.track_id


def watching(options: AdaptiveOptions, images: Sequence[Luma]) -> Maker:
    """Return a maker of trackers that are shown these images."""
    height, width = images[0].shape
    return lambda _fps: _Watching(options.build(), iter(images), (width, height))


def campus(shared: Path) -> Iterator[Clip]:
    """Yield TUD-Campus with both detectors."""
    folder = shared / "truth" / "mot" / "TUD-Campus"
    images = [np.asarray(cv2.imread(str(path), 0), np.uint8) for path in sorted((folder / "img1").glob("*.jpg"))]
    published = read_sequence(folder)
    model = shared / "models" / "FastestDet.onnx"
    for one in (published, seen_by_fastestdet(published, images=folder / "img1", model=model)):
        yield Clip(one, images, is_real=True)


def video(path: Path, model: Path, fps: float) -> Clip:
    """Return a video, its detections, and as truth what is tracked when the detector looks at every frame."""
    images, rows = [], []
    for frame in Pipeline(sources={"clip": str(path)}, steps=[Detect(model=str(model), confidence=0.1)]):
        if frame.index == MOST_FRAMES:
            break
        images.append(luma_from_surface(frame.surface).copy())
        found, number = frame.objects, np.full(len(frame.objects), frame.index + 1)
        rows.append(Boxes(number, number, found.xyxy.copy(), found.confidence.copy()))
    detections = Boxes(*(np.concatenate(column) for column in zip(*rows, strict=True)))
    seen = Recording(path.stem, fps, len(images), detections, detections)
    truth = tracks_of(seen, own(OFF.build))
    sure = _confidences(truth, detections) >= SURE
    return Clip(Recording(path.stem, fps, len(images), detections, truth.where(sure)), images, is_real=True)


def _confidences(tracks: Boxes, detections: Boxes) -> Floats:
    """Return the confidence of the detection that each box of a track is."""
    known = {
        (frame, *box): confidence
        for frame, box, confidence in zip(
            detections.frame.tolist(), detections.xyxy.tolist(), detections.confidence.tolist(), strict=True
        )
    }
    boxes = zip(tracks.frame.tolist(), tracks.xyxy.tolist(), strict=True)
    return np.array([known[frame, *box] for frame, box in boxes], np.float32)


def sample(name: str, fps: float) -> Clip:
    """Return a sample video as a detector would see it that misses the more of an object the more is hidden."""
    path = ROOT / "sample_videos" / f"{name}.mot.txt"
    visible = np.loadtxt(path, delimiter=",", usecols=8)
    truth = read_mot(path).where(visible >= LEAST_VISIBLE)
    visible = visible[visible >= LEAST_VISIBLE]
    random = np.random.default_rng(3)
    size = np.tile(truth.xyxy[:, 2:] - truth.xyxy[:, :2], (1, 2))
    trembling = (truth.xyxy + random.normal(0, 0.04, size.shape) * size).astype(np.float32)
    detections = truth._replace(xyxy=trembling, confidence=(0.5 + 0.4 * visible).astype(np.float32))
    seen = detections.where(random.random(len(visible)) < 0.6 + 0.35 * visible)
    images = [
        luma_from_surface(frame.surface).copy()
        for frame in Pipeline(sources={"clip": str(path.with_name(f"{name}.mp4"))})
    ]
    return Clip(Recording(f"{name} (sample)", fps, len(images), seen, truth), images, is_real=False)


def measured(watched: Clip, options: AdaptiveOptions, *, every: int) -> Between:
    """Return the figures of a clip when the detector looks at every so many frames."""
    recording = watched.recording
    between = np.array([frame for frame in range(1, recording.frame_count + 1) if (frame - 1) % every])

    def kept(boxes: Boxes) -> Boxes:
        boxes = boxes.where(np.isin(boxes.frame, between))
        return boxes._replace(frame=between.searchsorted(boxes.frame) + 1)

    tracks = kept(tracks_of(recording, watching(options, watched.images), every=every))
    truth = kept(recording.truth)
    scores = score(tracks, truth=truth, frames=range(1, len(between) + 1))
    overlap = 0.0
    for frame in range(1, len(between) + 1):
        pairs = iou_matrix(truth.xyxy[truth.frame == frame], tracks.xyxy[tracks.frame == frame])
        overlap += float(pairs[assign(pairs)].sum())
    return Between(overlap / len(truth.frame), scores.hota, scores.idf1, scores.mota)


def table(clips: Iterable[Clip]) -> str:
    """Return the table of all clips, without and with images."""
    head = ["clip", "`every`", "IoU", "HOTA", "IDF1", "MOTA"]
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    groups: dict[str, list[tuple[int, Between, Between]]] = {"mean, real": [], "mean, samples": []}
    for watched in clips:
        for every in EVERY:
            pair = measured(watched, OFF, every=every), measured(watched, ON, every=every)
            lines.append(_row(watched.recording.name, every, *pair))
            groups["mean, real" if watched.is_real else "mean, samples"].append((every, *pair))
            print(lines[-1], flush=True)
    for group, found in groups.items():
        for every in EVERY:
            rows = [(off, on) for step, off, on in found if step == every]
            if rows:
                lines.append(_row(f"**{group}**", every, *(_mean(column) for column in zip(*rows, strict=True))))
    return "\n".join(lines)


def _mean(found: Sequence[Between]) -> Between:
    names = Between.__dataclass_fields__
    return Between(**{name: fmean(getattr(one, name) for one in found) for name in names})


def _row(name: str, every: int, off: Between, on: Between) -> str:
    cells = [
        f"{getattr(off, figure):.3f} → {getattr(on, figure):.3f}".replace("0.", ".")
        for figure in Between.__dataclass_fields__
    ]
    return "| " + " | ".join([name, str(every), *cells]) + " |"


def costs(every: int) -> str:
    """Return the row of the cost when the detector looks at every so many frames."""
    noise = np.random.default_rng(0).integers(0, 256, (360, 640), dtype=np.uint8)
    image = np.asarray(cv2.GaussianBlur(cv2.resize(noise, (1280, 720)), (9, 9), 2), np.uint8)
    cells = []
    for count in COUNTS:
        frames = moving(count)
        passes = [[_milliseconds(options, frames, image, every) for options in (OFF, ON)] for _ in range(ROUNDS)]
        off, on = (median(column) for column in zip(*passes, strict=True))
        cells.append(f"{off:.2f} → {on:.2f} ms, {median(b / a for a, b in passes):.0f} x")
    return f"| {every} | " + " | ".join(cells) + " |"


def _milliseconds(options: AdaptiveOptions, frames: Sequence[tuple[Floats, Floats]], image: Luma, every: int) -> float:
    tracker = options.build()
    started = time.perf_counter()
    for number, (xyxy, confidence) in enumerate(frames):
        now = number * 1_000_000_000 // FPS
        if options.needs_images:
            tracker.look(image)
        if number % every:
            tracker.predict(pts_ns=now)
        else:
            tracker.update(xyxy, confidence, np.zeros(len(xyxy), np.int64), pts_ns=now)
    return (time.perf_counter() - started) / len(frames) * 1e3


def text(clips: Iterable[Clip]) -> str:
    """Return both tables."""
    head = "| `every` | " + " | ".join(f"{count} objects" for count in COUNTS) + " |\n" + "| --- " * 4 + "|"
    cost = "\n".join([head, *(costs(every) for every in (1, 3))])
    return f"{table(clips)}\n\nCost a frame of 1280x720, without → with images, in turn:\n\n{cost}"


def main() -> None:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("shared", type=Path, help="the folder of shared data")
    parser.add_argument("--write", action="store_true", help="write it into docs/benchmarks/tracking.md")
    asked = parser.parse_args()

    def clips() -> Iterator[Clip]:
        yield from campus(asked.shared)
        model = asked.shared / "models" / "yolox_nano.onnx"
        for name, fps in VIDEOS.items():
            yield video(asked.shared / "videos" / f"{name}.mp4", model, fps)
        for name, fps in SAMPLES.items():
            yield sample(name, fps)

    found = text(clips())
    print(found)
    if asked.write:
        PAGE.write_text(between_marks(PAGE.read_text(), found, begin=BEGIN, end=END))


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
