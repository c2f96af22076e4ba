"""How many threads a launch has, and what is launched: the face that kernels on a GPU and in tests have in common."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from sightline.devices.gpu.kernel_arguments import KernelArgument

Extent: TypeAlias = int | tuple[int] | tuple[int, int] | tuple[int, int, int]
"""How many along x, (x, y) or (x, y, z)."""
Extent3: TypeAlias = tuple[int, int, int]

_MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)
_MOST_THREADS = (1024, 1024, 64)
_MOST_THREADS_OF_A_BLOCK = 1024
_MOST_SHARED_BYTES = 48 * 1024


class Kernel(Protocol):
    """A kernel, ready to launch."""

    def __call__(
        self, *arguments: KernelArgument, grid: Extent, block: Extent, shared: int = 0, stream: object = None
    ) -> None:
        """Launch it on `grid` blocks of `block` threads with `shared` bytes of dynamic shared memory for each block.

        On a GPU it runs later, in the order of its stream. Raises TypeError for arguments that do not fit the kernel's
        parameters, ValueError for a launch that no GPU takes.
        """
        ...


class Kernels(Protocol):
    """The kernels of one source, by name."""

    def __getitem__(self, name: str) -> Kernel: ...


def blocks_for(count: int, *, block: int) -> int:
    """How many blocks of that size cover `count` threads."""
    return -(-count // block)


def check_launch(kernel: str, *, grid: Extent, block: Extent, shared: int) -> tuple[Extent3, Extent3]:
    """Grid and block as three numbers each. Raises ValueError beyond what every supported GPU takes."""
    blocks, threads = _extent3(grid), _extent3(block)
    for what, extent, most in (("grid", blocks, _MOST_BLOCKS), ("block", threads, _MOST_THREADS)):
        if not all(1 <= count <= limit for count, limit in zip(extent, most, strict=True)):
            raise ValueError(f"kernel {kernel}: {what} {extent} is not between (1, 1, 1) and {most}")
    if threads[0] * threads[1] * threads[2] > _MOST_THREADS_OF_A_BLOCK:
        raise ValueError(f"kernel {kernel}: a block of {threads} has more than {_MOST_THREADS_OF_A_BLOCK} threads")
    if not 0 <= shared <= _MOST_SHARED_BYTES:
        raise ValueError(f"kernel {kernel}: {shared} bytes of shared memory are not between 0 and {_MOST_SHARED_BYTES}")
    return blocks, threads


def _extent3(extent: Extent) -> Extent3:
    given = (extent,) if isinstance(extent, int) else tuple(extent)
    padded = (*given, 1, 1, 1)
    return int(padded[0]), int(padded[1]), int(padded[2])
