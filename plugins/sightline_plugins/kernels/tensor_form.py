"""The input of a network as kernels write it: layout, element type, normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from sightline_plugins.kernels.device_data import DeviceData, check_array
from sightline_plugins.pixels.placement import SizeWh
from sightline_plugins.pixels.preprocess import Preprocessing

Layout = Literal["nchw", "nhwc"]
_ELEMENTS: list[np.dtype[Any]] = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.uint8), np.dtype(np.int8)]
TENSOR = np.dtype(
    [
        ("size_wh", "<i4", (2,)),
        ("channels", "<i4"),
        ("element", "<i4"),
        ("is_interleaved", "<i4"),
        ("is_reversed", "<i4"),
        ("mean", "<f4", (3,)),
        ("factor", "<f4", (3,)),
        ("pad", "<i4", (3,)),
        ("zero_point", "<i4"),
    ],
    align=True,
)


@dataclass(frozen=True, slots=True)
class TensorForm:
    """What a network takes: `layout`, element type, and of whole numbers `y = quantum * (q - zero_point)`.

    Float elements are `(x - mean) / scale` of levels 0..255, as `Preprocessing` says; whole numbers the nearest `q` to
    that, at most what fits. Levels as they are: uint8, with mean 0 and scale 1 in the definition.
    """

    layout: Layout = "nchw"
    dtype: np.dtype[Any] = _ELEMENTS[0]
    quantum: float = 1.0
    zero_point: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in _ELEMENTS:
            allowed = ", ".join(element.name for element in _ELEMENTS)
            raise ValueError(f"inputs of networks are made of {allowed}, not {self.dtype}")
        if self.dtype.kind == "f" and (self.quantum != 1.0 or self.zero_point != 0):
            raise ValueError("a quantum and a zero point are for whole numbers (uint8, int8) only")

    def shape(self, images: int, *, channels: int, size_wh: SizeWh) -> tuple[int, int, int, int]:
        """The shape of the input for so many images."""
        width, height = size_wh
        if self.layout == "nchw":
            return images, channels, height, width
        return images, height, width, channels

    def size_wh_of(self, array: DeviceData) -> SizeWh:
        """The size of the images in an input of this layout."""
        _, *sides = array.shape
        return (sides[2], sides[1]) if self.layout == "nchw" else (sides[1], sides[0])

    def record(self, array: DeviceData, definition: Preprocessing) -> np.void:
        """What kernels are told of that memory. Raises ValueError when it is no dense array of this form."""
        record = np.zeros((), TENSOR)
        size_wh = self.size_wh_of(array) if len(array.shape) == 4 else (0, 0)
        expected = self.shape(array.shape[0], channels=definition.channels, size_wh=size_wh)
        check_array(array, what="the network's input", dtype=self.dtype, shape=expected)
        record["size_wh"] = size_wh
        record["channels"] = definition.channels
        record["element"] = _ELEMENTS.index(self.dtype)
        record["is_interleaved"] = self.layout == "nhwc"
        record["is_reversed"] = definition.color == "bgr"
        record["mean"] = definition.mean
        record["factor"] = (1 / np.array(definition.scale) / self.quantum).astype(np.float32)
        record["pad"] = definition.pad
        record["zero_point"] = self.zero_point
        return cast("np.void", record[()])
