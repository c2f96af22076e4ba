"""A GPU for programs and tests on machines without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sightline.devices.gpu.gpu import Gpu
from sightline.testing.gpu.double import DoubleDriver


@contextmanager
def double_gpu(*, memory_bytes: int = 2**30, pinned_bytes: int = 2**28) -> Iterator[Gpu]:
    """The double as an open GPU; when the block is left, it is closed.

    Raises GpuMisuse, there at the latest, when something was done that a real GPU does not forgive.

    >>> import numpy as np
    >>> from sightline.testing.gpu import double_gpu
    >>> with double_gpu() as gpu:
    ...     [array] = gpu.upload([np.arange(4, dtype=np.uint8)])
    ...     array.to_host().tolist()
    [0, 1, 2, 3]
    """
    driver = DoubleDriver(memory_bytes=memory_bytes, pinned_bytes=pinned_bytes)
    gpu = Gpu(driver)
    try:
        yield gpu
    finally:
        gpu.close()
    driver.check()
