"""Say before a run begins that its streams do not fit into the memory of its GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sightline.graph import SourceElement

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice

_GIB = 2**30
_LOOKED_AT = 16
"""Of files that are read one after another there may be thousands; the start waits for no more than these."""


def too_little_memory(gpus: Sequence[CudaDevice], sources: Iterable[SourceElement]) -> str | None:
    """What to say where all streams at once take more memory than the GPUs have free, models loaded; None where they
    fit. It is an estimate, so never an error: a stream for which there is no memory left is decoded on the CPU.

    Raises CudaError.
    """
    needs = _needs(sources)
    if not gpus or not needs:
        return None
    free = sum(_free_bytes(gpu) for gpu in gpus)
    total = sum(needs)
    if total <= free:
        return None
    fitting = _fitting(needs, free)
    have = f"{', '.join(map(str, gpus))} {'has' if len(gpus) == 1 else 'have'}"
    return (
        f"{len(needs)} streams take about {total / _GIB:.1f} GiB of GPU memory, and {have} {free / _GIB:.1f} GiB free: "
        f"about {fitting} of them fit, and others are decoded on the CPU or wait for memory; use fewer or smaller "
        f"streams, `in_turn: true` for files, or another GPU"
    )


def _needs(sources: Iterable[SourceElement]) -> list[int]:
    """What each stream takes. Of those that take turns one is there at a time: the largest of the first few."""
    at_once, in_turn = list[SourceElement](), list[SourceElement]()
    for source in sources:
        (in_turn if source.takes_turns else at_once).append(source)
    turn = max((source.gpu_memory_bytes() for source in in_turn[:_LOOKED_AT]), default=0)
    return sorted(need for need in (*(source.gpu_memory_bytes() for source in at_once), turn) if need)


def _fitting(needs: Sequence[int], free: int) -> int:
    """How many of the streams, the smallest first, fit together."""
    count = 0
    for need in needs:
        if need > free:
            break
        free -= need
        count += 1
    return count


def _free_bytes(gpu: CudaDevice) -> int:
    with gpu.guard("asking for its memory") as driver:
        return driver.free_memory_bytes()[0]
