"""The memory of the double: one stretch of host memory, lent in pieces with fences between them.

What is free holds a poison pattern, and is lent again first. Every piece has a fence on either side, which no copy and
no kernel may touch.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.devices.gpu.driver import DriverError, Harm, Span

POISON = 0xDB
"""What every byte of memory holds that nobody holds, and that nobody has written to since it was lent."""
_FENCE = 0xFE
_FENCE_BYTES = 64
_ALIGNMENT = 256


class GpuMisuse(Exception):
    """Something was done that may show wrong images, or end the process, on a real GPU."""


@dataclass(slots=True, eq=False)
class Block:
    """A piece of memory. `promised` counts how often it was given to another holder as calls say, `reached` as the work
    of the streams has come; both are equal when nothing is under way.
    """

    address: int
    size_bytes: int
    capacity_bytes: int
    is_free: bool = False
    promised: int = 0
    reached: int = 0
    event: int = 0

    @property
    def end(self) -> int:
        """The address behind its last byte."""
        return self.address + self.size_bytes


class Arena:
    """Memory of one kind. Not for several threads at once."""

    def __init__(self, what: str, *, size_bytes: int) -> None:
        self.what = what
        self._bytes: npt.NDArray[np.uint8] = np.empty(size_bytes + _ALIGNMENT, np.uint8)
        self._start = self._bytes.ctypes.data
        self._next = -(-self._start // _ALIGNMENT) * _ALIGNMENT + _ALIGNMENT
        self._end = self._start + self._bytes.nbytes
        self._addresses: list[int] = []
        self._blocks: list[Block] = []
        self._free: list[Block] = []
        self._fences: npt.NDArray[np.int64] = np.empty((0, 2 * _FENCE_BYTES), np.int64)

    @property
    def live_bytes(self) -> int:
        """How much is lent."""
        return sum(block.size_bytes for block in self._blocks if not block.is_free)

    def holds(self, address: int) -> bool:
        """Whether it is an address of this kind of memory."""
        return self._start <= address < self._end

    def allocate(self, size_bytes: int) -> int:
        """Lend a piece. Raises DriverError when there is not enough."""
        if size_bytes <= 0:
            raise GpuMisuse(f"{size_bytes} bytes of {self.what} were asked for")
        block = self._freed(size_bytes, fits_well=True) or self._new(size_bytes) or self._freed(size_bytes)
        if block is None:
            raise DriverError("out of memory", harm=Harm.MEMORY)
        block.is_free, block.size_bytes = False, size_bytes
        self.poison(block)
        return block.address

    def free(self, address: int) -> Block:
        """Take a piece back."""
        block = self._at(address)
        if block is None or block.address != address:
            raise GpuMisuse(f"{address:#x} was freed, but is no {self.what} that was allocated")
        if block.is_free:
            raise GpuMisuse(f"{self.what} at {address:#x} was freed twice")
        self.check_fences()
        block.is_free = True
        block.promised, block.reached = block.promised + 1, block.reached + 1
        self.poison(block)
        self._free.append(block)
        return block

    def block(self, address: int, *, size_bytes: int = 1) -> Block:
        """The lent piece that holds these bytes. Raises GpuMisuse when there is none."""
        block = self._at(address)
        if block is None or address >= block.end:
            raise GpuMisuse(f"{address:#x} lies outside of all {self.what} that was allocated")
        if block.is_free:
            raise GpuMisuse(f"{self.what} at {address:#x} is used after it was freed")
        if address + size_bytes > block.end:
            raise GpuMisuse(
                f"{size_bytes} bytes at {address:#x} reach {address + size_bytes - block.end} bytes beyond the end of "
                f"{block.size_bytes} bytes of {self.what}"
            )
        return block

    def rows(self, span: Span, *, width_bytes: int, rows: int) -> npt.NDArray[np.uint8]:
        """The bytes of a span, (rows, width), as a view. Raises GpuMisuse outside of what is lent."""
        pitch = max(span.pitch_bytes, width_bytes) if rows == 1 else span.pitch_bytes
        if rows < 1 or width_bytes < 1 or pitch < width_bytes:
            raise GpuMisuse(f"a copy of {rows} rows of {width_bytes} bytes, {span.pitch_bytes} apart")
        self.block(span.address, size_bytes=pitch * (rows - 1) + width_bytes)
        offset = span.address - self._start
        view: npt.NDArray[np.uint8] = np.ndarray((rows, width_bytes), np.uint8, self._bytes, offset, (pitch, 1))
        return view

    def poison(self, block: Block) -> None:
        """Spoil what a piece holds."""
        offset = block.address - self._start
        self._bytes[offset : offset + block.capacity_bytes] = POISON

    def check_fences(self) -> None:
        """Raise GpuMisuse when anybody wrote beside the pieces."""
        touched = (self._bytes[self._fences] != _FENCE).any(axis=1)
        if touched.any():
            block = self._blocks[int(np.argmax(touched))]
            raise GpuMisuse(
                f"something wrote before the start or behind the end of {block.capacity_bytes} bytes of {self.what}"
            )

    def _freed(self, size_bytes: int, *, fits_well: bool = False) -> Block | None:
        """The piece that was freed last and is large enough, or of just that size."""
        for place in range(len(self._free) - 1, -1, -1):
            capacity = self._free[place].capacity_bytes
            if capacity == _rounded(size_bytes) or (not fits_well and capacity >= size_bytes):
                return self._free.pop(place)
        return None

    def _new(self, size_bytes: int) -> Block | None:
        capacity = _rounded(size_bytes)
        address = self._next
        if address + capacity + _ALIGNMENT > self._end:
            return None
        self._next = -(-(address + capacity) // _ALIGNMENT) * _ALIGNMENT + _ALIGNMENT
        offset = address - self._start
        before = np.arange(offset - _FENCE_BYTES, offset)
        behind = np.arange(offset + capacity, offset + capacity + _FENCE_BYTES)
        fence = np.concatenate([before, behind])
        self._bytes[fence] = _FENCE
        self._fences = np.concatenate([self._fences, fence[None]])
        block = Block(address, size_bytes, capacity)
        self._addresses.append(address)
        self._blocks.append(block)
        return block

    def _at(self, address: int) -> Block | None:
        place = bisect.bisect_right(self._addresses, address) - 1
        return self._blocks[place] if place >= 0 else None


def _rounded(size_bytes: int) -> int:
    """Fences stand right behind the last byte, up to 15 bytes that keep them aligned."""
    return -(-size_bytes // 16) * 16
