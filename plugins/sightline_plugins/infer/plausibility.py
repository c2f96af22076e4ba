"""Warn about a detector whose first results cannot be right: nothing at all, one score, boxes beside the image."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sightline_plugins.heads.head import Array, Candidates

_IMAGES = 200
_FEWEST_IMAGES = 30
"""A run that ends earlier says nothing of a detector that found nothing."""
_FEWEST_BOXES = 50
_MOST_BESIDE = 0.9
_ADVICE = "`sightline verify` compares it with a plain reading of its outputs, and `head:` names another reading"


class PlausibilityCheck:
    """Counts what a detector finds on its first images of whole frames, and warns once if that cannot be right.

    `names` are those of the model's outputs. One thread at a time.
    """

    def __init__(self, names: Sequence[str], *, warn: Callable[[str], None]) -> None:
        self._names = names
        self._warn = warn
        self._images = self._boxes = self._beside = 0
        self._scores: set[float] = set()
        self._seen = ""
        self._is_over = False

    def add(self, found: Candidates, *, size_wh: tuple[int, int], outputs: Sequence[Array] = ()) -> None:
        """Count the boxes found on an image, in pixels of the network's input of that size."""
        if self._is_over:
            return
        self._images += 1
        if len(found):
            self._boxes += len(found)
            self._beside += int(np.count_nonzero(_is_beside(found, size_wh)))
            if len(self._scores) < 2:
                self._scores.update(np.unique(found.confidence)[:2].tolist())
        elif outputs and (not self._seen or self._images == _IMAGES):
            self._seen = "; ".join(_described(name, one) for name, one in zip(self._names, outputs, strict=False))
        if self._images == _IMAGES:
            self.finish()

    def finish(self) -> None:
        """Judge what was counted; when there are no more images."""
        if self._is_over or self._images < _FEWEST_IMAGES:
            return
        self._is_over = True
        if not self._boxes:
            seen = f" (on the last of them its outputs were {self._seen})" if self._seen else ""
            self._warn(f"nothing was found on the first {self._images} images{seen}: if there is something, {_ADVICE}")
        elif self._boxes >= _FEWEST_BOXES and len(self._scores) == 1:
            (score,) = self._scores
            self._warn(
                f"all {self._boxes} boxes of the first {self._images} images have the confidence {score:.3g}: {_ADVICE}"
            )
        elif self._boxes >= _FEWEST_BOXES and self._beside > _MOST_BESIDE * self._boxes:
            self._warn(
                f"{self._beside} of {self._boxes} boxes on the first {self._images} images lie beside the image: "
                f"{_ADVICE}"
            )


def _is_beside(found: Candidates, size_wh: tuple[int, int]) -> Array:
    left, top, right, bottom = found.xyxy.T
    beside: Array = (right <= 0) | (bottom <= 0) | (left >= size_wh[0]) | (top >= size_wh[1])
    return beside


def _described(name: str, output: Array) -> str:
    shape = "x".join(map(str, output.shape))
    if not output.size:
        return f"{name} {shape}, empty"
    return f"{name} {shape} from {np.nanmin(output):.3g} to {np.nanmax(output):.3g}"
