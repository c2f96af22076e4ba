"""Tests that need an NVIDIA GPU: `make gpu-test`. Where there is none, they skip and say why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sightline.devices.gpu.availability import why_not
from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.opening import open_gpu


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    """The first GPU, open."""
    reason = why_not(0)
    if reason is not None:
        pytest.skip(reason)
    gpu = open_gpu(0)
    yield gpu
    gpu.close()
