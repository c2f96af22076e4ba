"""Stacks of images: the input of networks that look at several images of one stream at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sightline_plugins.preprocess.definition import Image, Prepared, Preprocessing

StackOrder = Literal["cthw", "tchw", "thwc"]
"""Order of the axes behind the batch: channels, time, height, width."""
_FROM_THWC = {"cthw": (3, 0, 1, 2), "tchw": (0, 3, 1, 2), "thwc": (0, 1, 2, 3)}


@dataclass(frozen=True, slots=True)
class StackForm:
    """How many images a network looks at, how many frames lie from one to the next, and the order of its axes."""

    frames: int
    stride: int
    order: StackOrder


@dataclass(slots=True, eq=False)
class Stack:
    """The newest images of one thing, oldest first, `frames` at most. Only the submitting thread uses it.

    `taken` counts the images that it was told to take; `taken_at` and `asked_at` are the numbers of the stream's
    frames when it took the last one and when the model last looked at it.
    """

    frames: int
    images: deque[Prepared] = field(default_factory=deque)
    taken: int = 0
    taken_at: int = 0
    asked_at: int | None = None

    def add(self, prepared: Prepared) -> Prepared | None:
        """Put an image at the end; the one that gives way to it, when there were enough."""
        self.images.append(prepared)
        return self.images.popleft() if len(self.images) > self.frames else None


def stack_input(
    images: Sequence[Image], *, form: StackForm, preprocessing: Preprocessing, dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """The network's input for images (1, height, width, channels) uint8, oldest first: rank 5, a new array.

    `(x - mean) / scale` as for single images, whose engine does it in the graph.
    """
    stacked = np.concatenate(images)
    if dtype.kind == "f":
        mean = np.array(preprocessing.mean, np.float32)
        factor = (1 / np.array(preprocessing.scale)).astype(np.float32)
        levels = stacked.astype(np.float32)
        if mean.any():
            levels -= mean
        levels *= factor
        values: npt.NDArray[Any] = levels
    else:
        values = stacked
    return np.ascontiguousarray(values.transpose(_FROM_THWC[form.order])[None], dtype)
