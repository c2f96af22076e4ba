"""A GPU for programs and tests on machines without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sightline.devices.cuda.device import CudaDevice
from tests.fakes.cuda_driver import FakeCudaDriver


@contextmanager
def fake_cuda_device(*, memory_bytes: int = 2**30, pinned_bytes: int = 2**28) -> Iterator[CudaDevice]:
    """The double as an open GPU; when the block is left, it is closed.

    Raises CudaMisuse, there at the latest, when something was done that a real GPU does not forgive.

    >>> import numpy as np
    >>> from tests.fakes import fake_cuda_device
    >>> with fake_cuda_device() as gpu:
    ...     [array] = gpu.upload([np.arange(4, dtype=np.uint8)])
    ...     array.to_host().tolist()
    [0, 1, 2, 3]
    """
    driver = FakeCudaDriver(memory_bytes=memory_bytes, pinned_bytes=pinned_bytes)
    gpu = CudaDevice(driver)
    try:
        yield gpu
    finally:
        gpu.close()
    driver.check()
