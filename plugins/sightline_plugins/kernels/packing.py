"""Many small arrays in one, so that one copy brings them to the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
_ALIGNED = 16


class Packing:
    """Arrays one behind the other, each at a multiple of 16 bytes; one that comes twice is there once."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._places: dict[int, int] = {}
        self._arrays: list[tuple[int, npt.NDArray[Any]]] = []

    def place(self, array: npt.NDArray[Any]) -> int:
        """Where the bytes of an array are; nobody writes to it any more."""
        found = self._places.get(id(array))
        if found is None:
            found = self._places[id(array)] = self.reserve(array.nbytes)
            self._arrays.append((found, array))
        return found

    def reserve(self, size_bytes: int) -> int:
        """Where room is for so many bytes, which are 0."""
        place = self.size_bytes
        self.size_bytes += -(-size_bytes // _ALIGNED) * _ALIGNED
        return place

    def nest(self, other: Packing) -> int:
        """Where all that is in another one begins; it is not added to any more."""
        start = self.reserve(other.size_bytes)
        self._arrays += [(start + place, array) for place, array in other._arrays]
        return start

    def joined(self) -> Bytes:
        """All of it in one array."""
        content = np.zeros(self.size_bytes, np.uint8)
        for place, array in self._arrays:
            content[place : place + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return content
