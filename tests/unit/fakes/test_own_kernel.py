"""The example of an element that is a CUDA kernel, on the double."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from examples.own_kernel import Dim, Dimmer

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import DeviceUnavailable
from sightline.media import Memory, PixelFormat
from sightline.testing import conformance, make_batches, make_frames, run_element
from tests.fakes import fake_cuda_device


@pytest.fixture
def gpu() -> Iterator[CudaDevice]:
    with fake_cuda_device(memory_bytes=2**24, pinned_bytes=2**24) as gpu:
        yield gpu


def test_it_dims_images_where_they_are(gpu: CudaDevice) -> None:
    frames = make_frames(3, size_wh=(37, 11), pixel_format=PixelFormat.NV12)

    batches = run_element(Dim(factor=0.25), make_batches(frames, size=2), gpu=gpu)

    dimmed = [frame.surface for batch in batches for frame in batch.frames]
    assert {surface.memory for surface in dimmed} == {Memory.CUDA}
    for surface, frame in zip(dimmed, frames, strict=True):
        luma, chroma = frame.surface.planes
        np.testing.assert_array_equal(surface.to_host().planes[0], luma // 4)
        np.testing.assert_array_equal(surface.to_host().planes[1], chroma)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract(check: Callable[[conformance.Case], None], gpu: CudaDevice, tmp_path: Path) -> None:
    batches = make_batches(make_frames(8))
    there = [batch.with_surfaces([frame.surface.to_device(gpu) for frame in batch.frames]) for batch in batches]

    check(conformance.Case(Dim(), there, outputs=tmp_path, gpu=gpu))


def test_without_a_gpu_it_says_so() -> None:
    with pytest.raises(DeviceUnavailable, match="works on a GPU only"):
        run_element(Dim(), make_batches(make_frames(1)))


def test_it_takes_ten_lines() -> None:
    body = inspect.getsource(Dimmer.dimmed).split('"""')[2]

    assert len(body.strip().splitlines()) <= 10
