"""Tests that need an NVIDIA GPU: `make gpu-test`. Where there is none, they skip and say why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.opening import open_cuda, why_not


@pytest.fixture
def gpu() -> Iterator[CudaDevice]:
    """The first GPU, open."""
    reason = why_not(0)
    if reason is not None:
        pytest.skip(reason)
    gpu = open_cuda(0)
    yield gpu
    gpu.close()
