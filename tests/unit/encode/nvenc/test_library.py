"""PyNvVideoCodec's encoder: what becomes of the answers of a GPU, of errors, and of what is not installed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.fakes import NvencCaps, NvencFaults, fake_cuda_device, fake_nvenc

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import CudaFailed
from sightline.media import PixelFormat
from sightline.testing import make_frames
from sightline_plugins.encode import nvenc_library
from sightline_plugins.encode.nvenc import as_format, options_of, reason_against
from sightline_plugins.encode.nvenc_library import EncoderSupport, library_for
from sightline_plugins.encode.settings import EncoderError, EncoderSettings


@pytest.fixture
def gpu() -> Iterator[CudaDevice]:
    with fake_cuda_device() as gpu:
        yield gpu


def test_what_a_gpu_encodes_is_what_it_says(gpu: CudaDevice) -> None:
    fake_nvenc(gpu, caps={"h264": NvencCaps((145, 49), (4096, 2048))})
    nvenc = library_for(gpu)

    assert nvenc.support("h264") == EncoderSupport(True, (145, 49), (4096, 2048))
    assert nvenc.support("hevc") == EncoderSupport(False)


@pytest.mark.parametrize(("size_wh", "fits"), [((145, 49), True), ((144, 49), False), ((4096, 2050), False)])
def test_sizes_have_bounds_on_both_sides(size_wh: tuple[int, int], fits: bool) -> None:
    support = EncoderSupport(is_supported=True, min_size_wh=(145, 49), max_size_wh=(4096, 2048))

    assert (support.reason_against(size_wh) is None) == fits


def test_a_driver_without_an_encoder_is_the_reason(gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvenc_library, "reason_against_sessions", lambda gpu: "this GPU has no NVENC")

    with pytest.raises(EncoderError, match=r"^this GPU has no NVENC$"):
        library_for(gpu)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModuleNotFoundError("PyNvVideoCodec"), r"PyNvVideoCodec is missing: pip install 'sightline\[gpu\]'"),
        (RuntimeError("Failed to load NVENC library"), "cannot be imported: Failed to load NVENC library"),
    ],
)
def test_a_package_that_can_not_be_imported_is_the_reason(
    gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    def fails(name: str) -> None:
        raise error

    nvenc_library._installed.cache_clear()
    monkeypatch.setattr(nvenc_library, "reason_against_sessions", lambda gpu: None)
    monkeypatch.setattr(nvenc_library, "import_module", fails)

    with pytest.raises(EncoderError, match=reason):
        library_for(gpu)


def test_when_it_is_the_gpu_that_failed_that_is_said(gpu: CudaDevice) -> None:
    fake_nvenc(gpu, faults=NvencFaults(fail_at=frozenset({0})))
    encoder = library_for(gpu).encoder(
        PixelFormat.NV12,
        size_wh=(160, 64),
        stream=gpu.stream("test"),
        options=options_of(EncoderSettings("h264", "fast", 23, None, 1)),
    )
    gpu.guard.cause = "CUDA_ERROR_ECC_UNCORRECTABLE"

    with pytest.raises(CudaFailed, match="CUDA_ERROR_ECC_UNCORRECTABLE"):
        encoder.encode([], is_key=False)


def test_images_of_16_bits_are_not_for_nvenc(gpu: CudaDevice) -> None:
    fake_nvenc(gpu)
    stream = gpu.stream("test")
    wide = gpu.new_surface(PixelFormat.NV12, size_wh=(160, 64), stream=stream, is_wide=True)

    reason = reason_against(wide, codec="h264", library=library_for(gpu))

    assert reason == "its images have 16 bits a sample, and videos have 8"


@pytest.mark.parametrize("to", [PixelFormat.NV12, PixelFormat.I420])
def test_an_image_of_4_2_0_changes_its_format_and_not_its_samples(to: PixelFormat) -> None:
    other = {PixelFormat.NV12: PixelFormat.I420, PixelFormat.I420: PixelFormat.NV12}[to]
    (frame,) = make_frames(1, size_wh=(16, 8), pixel_format=other)

    made = as_format(frame.surface, to)

    assert made.format is to
    u, v = made.planes[1:] if to is PixelFormat.I420 else np.moveaxis(made.planes[1], 2, 0)
    its_u, its_v = frame.surface.planes[1:] if other is PixelFormat.I420 else np.moveaxis(frame.surface.planes[1], 2, 0)
    for mine, its in ((made.planes[0], frame.surface.planes[0]), (u, its_u), (v, its_v)):
        np.testing.assert_array_equal(mine, its)


def test_an_image_of_the_format_stays_what_it_is() -> None:
    (frame,) = make_frames(1, size_wh=(16, 8), pixel_format=PixelFormat.NV12)

    assert as_format(frame.surface, PixelFormat.NV12) is frame.surface
