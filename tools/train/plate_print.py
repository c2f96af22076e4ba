"""Number plates printed without a scene around them: as many as a reader needs to learn all letters."""

from __future__ import annotations

import cv2
import numpy as np

from tools.train.plate_samples import TEXT_WH, TextCrops, cut, jittered, with_margin
from tools.world.arrays import Floats, Image, RgbImage
from tools.world.lettering import ink, random_text

_OVERSAMPLING = 3
_AROUND = 0.35


def printed(count: int, *, rng: np.random.Generator) -> TextCrops:
    """So many plates as a camera sees them from near and far, from the side, in any light."""
    texts = tuple(random_text(rng) for _ in range(count))
    return TextCrops(np.stack([_seen(text, rng=rng) for text in texts]), texts)


def _seen(text: str, *, rng: np.random.Generator) -> RgbImage:
    width = rng.uniform(42, 110)
    height = width * rng.uniform(0.17, 0.25)
    size_wh = (int(width * (1 + 2 * _AROUND)) + 1, int(height * (1 + 4 * _AROUND)) + 1)
    corners = _corners(width, height, rng=rng) + (np.array(size_wh) - (width, height)) / 2
    fine = (size_wh[0] * _OVERSAMPLING, size_wh[1] * _OVERSAMPLING)
    sheet = np.full(fine[::-1], rng.uniform(15, 235), np.float32)
    corners_fine = corners * _OVERSAMPLING
    paper, dark = rng.uniform(70, 245), rng.uniform(8, 40)
    cv2.fillPoly(sheet, [np.round(corners_fine).astype(np.int32)], paper)
    laid = _laid(text, corners_fine, size_wh=fine)
    sheet += laid * (dark - sheet)
    plain = cv2.resize(sheet, size_wh, interpolation=cv2.INTER_AREA)
    low, high = corners.min(axis=0), corners.max(axis=0)
    box = jittered(with_margin(np.concatenate([low, high])), rng=rng, share=0.035)
    return cut(_photographed(plain, rng=rng), xyxy=box, size_wh=TEXT_WH)


def _corners(width: float, height: float, *, rng: np.random.Generator) -> Floats:
    """Lower left, lower right, and so on round: leaning, narrower on one side."""
    lean = rng.normal(0, 0.045) * width
    narrow = rng.normal(0, 0.025, 2) * height
    return np.array(
        [(0, height + narrow[0] + lean / 2), (width, height - lean / 2), (width, -lean / 2), (0, narrow[1] + lean / 2)]
    )


def _laid(text: str, corners: Floats, *, size_wh: tuple[int, int]) -> Image:
    width, height = (max(4, round(float(np.hypot(*(corners[end] - corners[0]))))) for end in (1, 3))
    small = cv2.resize(ink(text), (width, height), interpolation=cv2.INTER_AREA)
    edges = np.array([(0, height), (width, height), (width, 0), (0, 0)], np.float32) - 0.5
    move = cv2.getPerspectiveTransform(edges, corners.astype(np.float32) - 0.5)
    return np.asarray(cv2.warpPerspective(small, move, size_wh, flags=cv2.INTER_LINEAR), np.float32)


def _photographed(plain: Image, *, rng: np.random.Generator) -> RgbImage:
    """Shade across the plate, blur, noise and coding."""
    if rng.uniform() < 0.35:
        start, stop = rng.uniform(0.55, 1.0, 2)
        plain = plain * np.linspace(start, stop, plain.shape[1], dtype=np.float32)
    if rng.uniform() < 0.5:
        plain = cv2.GaussianBlur(plain, (0, 0), rng.uniform(0.2, 0.9)).astype(np.float32)
    noisy = plain + rng.normal(0, rng.uniform(0.5, 6), plain.shape)
    levels = np.clip(noisy, 0, 255).astype(np.uint8)
    coded = cv2.imencode(".jpg", levels, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(35, 95))])[1]
    return np.asarray(cv2.imdecode(coded, cv2.IMREAD_GRAYSCALE), np.uint8)
