"""The two drivers that tests of the device run on."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from tests.fakes.cuda_driver import FakeCudaDriver
from tests.null_driver import NullCudaDriver, fresh_null_driver

DriverKind: TypeAlias = Literal["fake", "null"]
TestedDriver: TypeAlias = FakeCudaDriver | NullCudaDriver


class MakeDriver(Protocol):
    """Opens a GPU by its number, 0 or 1."""

    def __call__(self, index: int = 0) -> TestedDriver: ...


def fresh_gpus(kind: DriverKind, *, memory_bytes: int = 2**26) -> MakeDriver:
    """Two GPUs that nothing was done with, of the fake or of the null driver."""
    if kind == "fake":
        return lambda index=0: FakeCudaDriver(index=index, memory_bytes=memory_bytes, pinned_bytes=memory_bytes)
    fresh_null_driver(gpus=2, memory_bytes=memory_bytes)
    return lambda index=0: NullCudaDriver(index=index)
