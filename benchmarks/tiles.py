"""What tiles find in large images, and what is left of seams, beside other ways of merging.

    python -m benchmarks.tiles

Large images (3840x2160 and 5760x3240) are made of 36 frames of each sample clip, side by side, so that the truth of
the clips tells every object. `models/street.onnx` looks at them whole, in tiles that do not end where frames do, and at
each frame by itself. Printed are recall and precision against the truth at IoU 0.5; `doubles`: detections of objects
that a more confident one has found already; `wrong`: those of nothing (frames end in the middle of the large image,
so objects that are cut there look like none). The merging of `detect` stands beside two others of the same finds: plain
suppression, and greedy merging by intersection over the smaller box (obss/sahi, `GreedyNMMPostprocess` with
`match_metric="IOS"` and the threshold 0.5).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Frame, Stream
from sightline.media.boxes import area, iou_matrix
from sightline.media.convert import surface_from_rgb
from sightline.testing import run_element
from sightline_plugins import Detect
from sightline_plugins.infer.targets import tile_regions
from sightline_plugins.nms.cpu import suppress
from sightline_plugins.nms.options import NmsOptions

ROOT = Path(__file__).parent.parent
CLIPS = ("street", "dusk", "entrance")
ACROSS = 6
TILE_WH = (640, 360)
SEEN = 0.5
LEAST_SIDE = 10
Image = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Detected:
    """Boxes (N, 4), confidences (N,) and classes (N,)."""

    xyxy: Floats
    confidence: Floats
    class_id: npt.NDArray[np.int32]

    def moved(self, left: int, top: int) -> Detected:
        """The same in an image in which this one's first pixel is at (left, top)."""
        return Detected(self.xyxy + np.array([left, top] * 2, np.float32), self.confidence, self.class_id)

    def select(self, rows: Any) -> Detected:
        """Some of the rows."""
        return Detected(self.xyxy[rows], self.confidence[rows], self.class_id[rows])


@dataclass(frozen=True)
class Mosaic:
    """Frames of one clip, where each lies in the large image, the image itself and the truth in its pixels.

    `unclear` are objects that are mostly hidden or tiny: finding them or not counts neither way.
    """

    frames: tuple[Image, ...]
    places: tuple[tuple[int, int], ...]
    image: Image
    truth: Detected
    unclear: Floats


def mosaic(clip: str) -> Mosaic:
    """36 frames of a clip, evenly spread over it."""
    with av.open(str(ROOT / "sample_videos" / f"{clip}.mp4")) as container:
        every = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    numbers = np.linspace(0, len(every) - 1, ACROSS**2).astype(int).tolist()
    frames = tuple(np.asarray(every[number], np.uint8) for number in numbers)
    height, width = frames[0].shape[:2]
    places = tuple((number % ACROSS * width, number // ACROSS * height) for number in range(len(frames)))
    image = np.zeros((height * ACROSS, width * ACROSS, 3), np.uint8)
    for frame, (left, top) in zip(frames, places, strict=True):
        image[top : top + height, left : left + width] = frame
    rows = np.loadtxt(ROOT / "sample_videos" / f"{clip}.mot.txt", delimiter=",")
    boxes, classes, clear = [], [], []
    for number, (left, top) in zip(numbers, places, strict=True):
        here = rows[rows[:, 0] == number + 1]
        boxes.append(np.concatenate([here[:, 2:4], here[:, 2:4] + here[:, 4:6]], axis=1) + np.array([left, top] * 2))
        classes.append(here[:, 7])
        clear.append((here[:, 8] >= SEEN) & (here[:, 4:6].min(axis=1) >= LEAST_SIDE))
    xyxy, seen = np.concatenate(boxes).astype(np.float32), np.concatenate(clear)
    truth = Detected(xyxy, np.ones(len(xyxy), np.float32), np.concatenate(classes).astype(np.int32))
    return Mosaic(frames, places, image, truth.select(seen), xyxy[~seen])


def look(images: Sequence[Image], **options: Any) -> tuple[list[Detected], float]:
    """What `detect` finds on each image, and the seconds that all took."""
    element = Detect(model=ROOT / "models" / "street.onnx", **options)
    frames = [Frame(Stream("cam"), n, n * 40_000_000, surface_from_rgb(one)) for n, one in enumerate(images)]
    begin = time.perf_counter()
    batches = run_element(element, [Batch((frame,)) for frame in frames])
    seconds = time.perf_counter() - begin
    return [Detected(one.objects.xyxy, one.objects.confidence, one.objects.class_id) for one in batches], seconds


def joined(parts: Sequence[Detected]) -> Detected:
    """All rows."""
    return Detected(
        np.concatenate([part.xyxy for part in parts]),
        np.concatenate([part.confidence for part in parts]),
        np.concatenate([part.class_id for part in parts]),
    )


def tiles_apart(image: Image) -> Detected:
    """The finds of each tile and of the whole image, not merged."""
    height, width = image.shape[:2]
    regions = tile_regions((width, height), tile_wh=TILE_WH, overlap=0.2, whole=True)
    corners = [tuple(int(edge) for edge in region) for region in regions]
    found, _ = look([np.ascontiguousarray(image[t:b, le:r]) for le, t, r, b in corners])
    return joined([part.moved(left, top) for part, (left, top, _, _) in zip(found, corners, strict=True)])


def greedy_merge(found: Detected) -> Detected:
    """SAHI's greedy merging: from the most confident box on, what overlaps it by half of the smaller one joins it."""
    order = np.argsort(-found.confidence, kind="stable").tolist()
    rows: list[int] = []
    boxes = found.xyxy.copy()
    while order:
        best = order.pop(0)
        rows.append(best)
        rest = np.array(order, np.intp)
        low = np.maximum(found.xyxy[best, :2], found.xyxy[rest, :2])
        high = np.minimum(found.xyxy[best, 2:], found.xyxy[rest, 2:])
        shared = np.maximum(high - low, 0).prod(axis=1)
        smaller = np.minimum(area(found.xyxy[best : best + 1]), area(found.xyxy[rest]))
        joins = (shared / np.maximum(smaller, 1e-9) >= 0.5) & (found.class_id[rest] == found.class_id[best])
        for member in rest[joins].tolist():
            boxes[best, :2] = np.minimum(boxes[best, :2], found.xyxy[member, :2])
            boxes[best, 2:] = np.maximum(boxes[best, 2:], found.xyxy[member, 2:])
        order = rest[~joins].tolist()
    return Detected(boxes[rows], found.confidence[rows], found.class_id[rows])


def plain_suppression(found: Detected) -> Detected:
    """Suppression of all finds together, as in one image."""
    options = NmsOptions(iou=0.45, class_agnostic=True, max_detections=10_000)
    return found.select(suppress(found.xyxy, found.confidence, found.class_id, options=options))


def report(name: str, found: Sequence[Detected], mosaics: Sequence[Mosaic], seconds: float | None = None) -> None:
    """Print one row."""
    hits = doubles = wrong = known = 0
    for one, mosaic_ in zip(found, mosaics, strict=True):
        taken: set[int] = set()
        shared = iou_matrix(one.xyxy, mosaic_.truth.xyxy)
        unclear = iou_matrix(one.xyxy, mosaic_.unclear).max(axis=1, initial=0)
        known += len(mosaic_.truth.xyxy)
        for row in np.argsort(-one.confidence, kind="stable").tolist():
            near = [n for n in np.argsort(-shared[row], kind="stable").tolist() if shared[row, n] >= SEEN]
            free = [n for n in near if n not in taken]
            if free:
                taken.add(free[0])
            elif near:
                doubles += 1
            elif unclear[row] < SEEN:
                wrong += 1
        hits += len(taken)
    took = "" if seconds is None else f"{seconds / len(mosaics):.2f} s"
    precision = hits / max(hits + doubles + wrong, 1)
    print(f"| {name} | {hits / known:.3f} | {precision:.3f} | {doubles} | {wrong} | {took} |", flush=True)


def main() -> None:
    """Measure, and print a table."""
    mosaics = [mosaic(clip) for clip in CLIPS]
    images = [one.image for one in mosaics]
    print(f"{sum(len(one.truth.xyxy) for one in mosaics)} objects\n")
    print("| way | recall | precision | doubles | wrong | an image |\n|---|---|---|---|---|---|")
    report("whole image", *_looked(images, mosaics))
    for whole in (False, True):
        name = f"tiles {TILE_WH[0]}x{TILE_WH[1]}{', and whole' if whole else ''}"
        options = {"tiles": {"size": TILE_WH, "whole": whole}, "max_detections": 5000}
        report(name, *_looked(images, mosaics, **options))
    apart = [tiles_apart(image) for image in images]
    report("the same, plain suppression", [plain_suppression(one) for one in apart], mosaics)
    report("the same, merged by IoS", [greedy_merge(one) for one in apart], mosaics)
    alone, total = [], 0.0
    for one in mosaics:
        found, seconds = look(one.frames)
        alone.append(joined([part.moved(*place) for part, place in zip(found, one.places, strict=True)]))
        total += seconds
    report("each frame by itself", alone, mosaics, total)


def _looked(
    images: Sequence[Image], mosaics: Sequence[Mosaic], **options: Any
) -> tuple[list[Detected], Sequence[Mosaic], float]:
    found, seconds = look(images, **options)
    return found, mosaics, seconds


if __name__ == "__main__":
    main()
