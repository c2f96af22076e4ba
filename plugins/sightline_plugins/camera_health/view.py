"""What a camera usually sees, and how an image differs from that: matched block by block, whatever the light.

Images come as luma whose longer side is 320 pixels or less (`fine`), and are compared at half that size (`coarse`), in
blocks of 10x10 coarse pixels. A block matches when its normalised cross-correlation with the background is above 0.5,
which neither brightness nor contrast changes; what is flat in the background, or moves all the time, is left out. How
the whole image is shifted is found by phase correlation (Kuglin and Hines, 1975) and believed when the shifted image
matches. The background follows the image by a limited step (the approximated median of McFarlane and Schofield, 1995),
so that traffic leaves no trace in it, and dusk does.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.graph.state import Saved
from sightline.graph.tracker import Luma
from sightline_plugins.opencv import cv2

LONGEST = 320
"""Pixels of the longer side of a fine image at most."""
BLOCK = 10
FEWEST_BLOCKS = 8
"""With fewer blocks to match, an image is not compared with the background."""
_MATCH = 0.5
_MATCHED_USUALLY = 0.6
"""Share of the images in which a block has to match, to be compared at all."""
_LEAST_VARIANCE, _LEAST_EDGES = 9.0, 2.0
"""Of a block of the background that has something to match: in squared levels, and in levels a pixel."""
_EDGE_FLOOR = 4.0
"""Gradients up to this many levels are noise."""
_NOISE = 0.05
"""The share of blocks whose fine detail is noise."""
_LOST = 0.3
"""A block has lost its edges when so little is left of them."""
_ALIKE = 0.75
"""When fewer blocks match, it is tried whether the image is shifted."""
_FARTHEST_SHAKE = 1 / 40
"""Shifts up to this share of the width are those of a mast in the wind."""
_SHIFTED_MATCH, _SHIFTED_GAIN = 0.6, 0.2
_LARGEST_SHIFT = 0.4
_BLANK = 1 / 25
"""The share of blocks with any detail in an image that shows nothing, but perhaps a clock that the camera writes."""
_BACKGROUND_STEP = 0.5
"""Levels by which the background follows, a second."""
_FOLLOWS_FROM = 0.6
_FOLLOW_SECONDS = 600.0
_SHARP_ENOUGH = 0.7

Floats: TypeAlias = npt.NDArray[np.float32]
"""A coarse image (H, W), or a value of each block (R, C)."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How an image differs from the background.

    `match` and `covered` are shares of the compared blocks: those that match, and those that do not and have no edges
    any more. `layout` is the correlation of the mean brightness of all blocks. `sharpness` is how much is left of the
    fine detail beside the contrast, where blocks match: 1 is as usual, NaN where too few match; `detail` is that of all
    compared blocks. `shift_xy` is how far the image is shifted, in shares of its width and height, when it is by more
    than a shake.
    """

    match: float
    covered: float
    layout: float
    detail: float
    sharpness: float
    shift_xy: tuple[float, float] | None


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One image, measured: the coarse image, and of each block its mean, its variance, its edges, and how sharp it is:
    fine detail beside contrast, without the noise that is in all blocks alike.
    """

    coarse: Floats
    mean: Floats
    variance: Floats
    edges: Floats
    sharpness: Floats
    brightness: float
    contrast: float

    @classmethod
    def of(cls, fine: Luma) -> Sample:
        """Measure a fine image (H, W). Too small ones have no blocks."""
        height, width = fine.shape
        coarse = cv2.resize(fine, (max(width // 2, 1), max(height // 2, 1)), interpolation=cv2.INTER_AREA)
        coarse = coarse.astype(np.float32)
        mean = _means(coarse)
        variance = np.maximum(_means(coarse * coarse) - mean * mean, 0)
        laplacian = cv2.Laplacian(fine, cv2.CV_32F)
        detail = _means(laplacian * laplacian, side=2 * BLOCK)
        if detail.size:
            detail = np.maximum(detail - np.quantile(detail, _NOISE), 0)
        average, deviation = cv2.meanStdDev(coarse)
        return cls(
            coarse,
            mean,
            variance,
            _means(np.maximum(_gradient(coarse) - _EDGE_FLOOR, 0)),
            np.sqrt(detail / (variance + 1)),
            float(average[0, 0]),
            float(deviation[0, 0]),
        )

    @property
    def is_blank(self) -> bool:
        """Whether nothing is to be seen, as behind a cap."""
        if not self.variance.size:
            return self.contrast**2 < _LEAST_VARIANCE
        return float((self.variance > _LEAST_VARIANCE).mean()) <= _BLANK


class View:
    """What a camera usually sees. Blocks are numbered by rows and columns (R, C); all values are of blocks."""

    def __init__(self, background: Floats, *, edges: Floats, sharp: Floats, matched: Floats) -> None:
        self._background = background
        self._edges, self._sharp = edges, sharp
        self._matched = matched
        """In which share of the images each block matched."""
        self._measure()

    @classmethod
    def learned(cls, images: Sequence[Luma]) -> View:
        """Return what fine images of one size (H, W) show most of the time."""
        samples = [Sample.of(image) for image in images]
        background = np.median([sample.coarse for sample in samples], axis=0).astype(np.float32)
        edges = np.median([sample.edges for sample in samples], axis=0).astype(np.float32)
        sharp = np.median([sample.sharpness for sample in samples], axis=0).astype(np.float32)
        view = cls(background, edges=edges, sharp=sharp, matched=np.zeros_like(edges))
        matched = [view._correlation(sample.coarse, sample.mean, sample.variance) > _MATCH for sample in samples]
        view._matched = np.mean(matched, axis=0, dtype=np.float32)
        view._measure()
        return view

    @property
    def is_comparable(self) -> bool:
        """Whether enough of the background has something to match."""
        return self._count >= FEWEST_BLOCKS

    def compare(self, sample: Sample) -> Comparison:
        """Return how an image of the same size differs. Only for a view that is comparable."""
        compared = self._compared
        matches = self._correlation(sample.coarse, sample.mean, sample.variance) > _MATCH
        match = self._share(matches)
        shift_xy = None
        if match < _ALIKE:
            x, y, shifted, seen = self._shifted(sample.coarse)
            height, width = sample.coarse.shape
            if max(abs(x), abs(y)) <= _FARTHEST_SHAKE * width:
                shifted_match = self._share(shifted & seen)
                if shifted_match > match:
                    match, matches = shifted_match, shifted & seen
            elif (seen & compared).sum() >= max(FEWEST_BLOCKS, 0.3 * self._count):
                found = float(shifted[seen & compared].mean())
                if found >= max(_SHIFTED_MATCH, match + _SHIFTED_GAIN):
                    shift_xy = (x / width, y / height)
        covered = self._share(~matches & (sample.edges < _LOST * self._edges))
        detail = self._sharpness(sample, np.ones_like(matches))
        sharpness = self._sharpness(sample, matches)
        return Comparison(match, covered, self._layout(sample.mean), detail, sharpness, shift_xy)

    def follow(self, sample: Sample, *, seconds: float, sharpness: float) -> None:
        """Let the background follow an image that is as usual, `seconds` after the one before."""
        correlation = self._correlation(sample.coarse, sample.mean, sample.variance)
        matches = correlation > _MATCH
        if self.is_comparable and self._share(matches) < _FOLLOWS_FROM:
            return
        step = _BACKGROUND_STEP * seconds
        self._background += np.clip(sample.coarse - self._background, -step, step)
        share = min(seconds / _FOLLOW_SECONDS, 1.0)
        self._matched += share * (matches - self._matched)
        self._edges += share * (sample.edges - self._edges)
        if not sharpness < _SHARP_ENOUGH:  # it may be NaN
            self._sharp += share * (sample.sharpness - self._sharp)
        self._measure()

    def save(self) -> Saved:
        """Return the view as JSON values."""
        height, width = self._background.shape
        pixels = np.rint(self._background).astype(np.uint8).tobytes()
        blocks = {name: np.round(values, 2).ravel().tolist() for name, values in self._blocks().items()}
        return {"size_wh": [width, height], "background": b64encode(zlib.compress(pixels, 1)).decode(), **blocks}

    @classmethod
    def restored(cls, saved: Saved) -> View:
        """Return the view that `save` has saved. Raises KeyError, TypeError or ValueError."""
        width, height = (int(side) for side in saved["size_wh"])
        if not (0 < width <= LONGEST and 0 < height <= LONGEST):
            raise ValueError("the size of a saved view is wrong")
        try:
            unpacked = zlib.decompressobj().decompress(b64decode(saved["background"]), width * height + 1)
        except zlib.error as error:
            raise ValueError("the background of a saved view is damaged") from error
        background = np.frombuffer(unpacked, np.uint8).reshape(height, width).astype(np.float32)
        shape = (height // BLOCK, width // BLOCK)
        edges, sharp, matched = (
            np.array(saved[name], np.float32).reshape(shape) for name in ("edges", "sharp", "matched")
        )
        if not all(np.isfinite(values).all() for values in (edges, sharp, matched)):
            raise ValueError("a saved view has values that are no numbers")
        return cls(background, edges=edges, sharp=sharp, matched=matched)

    def fits(self, sample: Sample) -> bool:
        """Whether an image has the size of the background."""
        return sample.coarse.shape == self._background.shape

    def _blocks(self) -> dict[str, Floats]:
        return {"edges": self._edges, "sharp": self._sharp, "matched": self._matched}

    def _measure(self) -> None:
        """Take what is compared from the background as it is now."""
        self._mean = _means(self._background)
        self._variance = np.maximum(_means(self._background * self._background) - self._mean * self._mean, 0)
        self._compared = (
            (self._matched >= _MATCHED_USUALLY) & (self._variance > _LEAST_VARIANCE) & (self._edges > _LEAST_EDGES)
        )
        self._count = int(self._compared.sum())

    def _share(self, blocks: npt.NDArray[np.bool_]) -> float:
        return float(blocks[self._compared].mean())

    def _correlation(self, coarse: Floats, mean: Floats, variance: Floats) -> Floats:
        """Return the normalised cross-correlation of each block with the background; about 0 where either is flat."""
        covariance = _means(coarse * self._background) - mean * self._mean
        correlation: Floats = covariance / np.sqrt((variance + 1) * (self._variance + 1))
        return correlation

    def _shifted(self, coarse: Floats) -> tuple[float, float, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return how far an image is shifted (x, y), which blocks match when that is undone, and which are seen."""
        height, width = coarse.shape
        window = cv2.createHanningWindow((width, height), cv2.CV_32F)
        # OpenCV applies the window to its arguments in place.
        (x, y), _ = cv2.phaseCorrelate(self._background.copy(), coarse.copy(), window)
        shape = self._mean.shape
        if abs(x) > _LARGEST_SHIFT * width or abs(y) > _LARGEST_SHIFT * height:
            nothing = np.zeros(shape, np.bool_)
            return x, y, nothing, nothing
        columns, rows = round(x), round(y)
        back = np.roll(coarse, (-rows, -columns), (0, 1))
        inside = np.zeros_like(coarse)
        inside[max(-rows, 0) : height - max(rows, 0), max(-columns, 0) : width - max(columns, 0)] = 1
        mean = _means(back)
        variance = np.maximum(_means(back * back) - mean * mean, 0)
        return x, y, self._correlation(back, mean, variance) > _MATCH, _means(inside) > 0.99

    def _layout(self, mean: Floats) -> float:
        present, usual = mean - mean.mean(), self._mean - self._mean.mean()
        scale = float(np.sqrt((present * present).sum() * (usual * usual).sum()))
        return float((present * usual).sum()) / scale if scale > 1 else 0.0

    def _sharpness(self, sample: Sample, matches: npt.NDArray[np.bool_]) -> float:
        blocks = matches & self._compared
        if blocks.sum() < max(FEWEST_BLOCKS, 0.1 * self._count):
            return float("nan")
        return float(np.median(sample.sharpness[blocks] / np.maximum(self._sharp[blocks], 0.01)))


def _means(image: Floats, *, side: int = BLOCK) -> Floats:
    """Return the mean of each block with `side` pixels a side (R, C); what is left over at the right and below is not
    looked at.
    """
    rows, columns = image.shape[0] // side, image.shape[1] // side
    if not rows or not columns:
        return np.zeros((rows, columns), np.float32)
    whole = image[: rows * side, : columns * side]
    return np.asarray(cv2.resize(whole, (columns, rows), interpolation=cv2.INTER_AREA), np.float32)


def _gradient(image: Floats) -> Floats:
    """Return the absolute differences of the neighbours of each pixel, across and down, added up."""
    found = np.zeros_like(image)
    found[:, 1:-1] += np.abs(image[:, 2:] - image[:, :-2])
    found[1:-1] += np.abs(image[2:] - image[:-2])
    return found
