"""PyNvVideoCodec in our words, and what stands for it."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import CudaFailed
from sightline_plugins.decode import nvdec_library
from sightline_plugins.decode.nvdec_library import NvdecError, library_for
from tests.fakes import FakeCudaDriver, fake_nvdec


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The driver's library is there."""
    nvdec_library._installed.cache_clear()
    monkeypatch.setattr(nvdec_library, "nvdec_library", lambda: None)
    return monkeypatch


def test_a_driver_without_a_video_decoder_is_told(gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    nvdec_library._installed.cache_clear()

    def missing() -> None:
        raise OSError("no such file")

    monkeypatch.setattr(nvdec_library, "nvdec_library", missing)

    with pytest.raises(NvdecError, match=r"the driver brings no video decoder \(libnvcuvid.so.1 is missing\)"):
        library_for(gpu)


def test_a_package_that_is_missing_is_told_with_the_command_to_install_it(
    gpu: CudaDevice, present: pytest.MonkeyPatch
) -> None:
    present.setitem(sys.modules, "PyNvVideoCodec", None)

    with pytest.raises(NvdecError, match=r"pip install 'sightline\[gpu\]'"):
        library_for(gpu)


def test_a_package_that_can_not_be_imported_is_told(gpu: CudaDevice, present: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> ModuleType:
        raise RuntimeError("Failed to load NVENC library:\n libnvidia-encode.so.1\n\n=== TROUBLESHOOTING ===")

    present.setattr(nvdec_library, "import_module", fails)

    with pytest.raises(NvdecError, match=r"cannot be imported: Failed to load NVENC library: libnvidia-encode.so.1$"):
        library_for(gpu)


def test_what_stands_in_is_that_of_its_gpu_alone(gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    nvdec_library._installed.cache_clear()
    fake_nvdec(gpu)
    other = CudaDevice(FakeCudaDriver(memory_bytes=2**20, pinned_bytes=2**20))

    assert library_for(gpu).support("h264", chroma="420", bit_depth=8).is_supported
    with pytest.raises(NvdecError):
        library_for(other)

    other.close()


@pytest.mark.parametrize(
    ("codec", "chroma", "bit_depth", "expected"),
    [
        ("h264", "420", 8, True),
        ("h264", "420", 10, False),
        ("hevc", "444", 12, True),
        ("hevc", "400", 8, False),
        ("av1", "420", 8, False),
    ],
)
def test_the_gpu_says_what_it_decodes(
    gpu: CudaDevice, codec: str, chroma: str, bit_depth: int, *, expected: bool
) -> None:
    fake_nvdec(gpu)

    support = library_for(gpu).support(codec, chroma=chroma, bit_depth=bit_depth)

    assert support.is_supported is expected
    assert support.engines == 7


def test_a_gpu_that_does_not_work_is_found_before_a_decoder_is_made(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    made = fake_nvdec(gpu)
    decoders = library_for(gpu)
    driver.fail_next("synchronize", "launch failure")
    with pytest.raises(CudaFailed):
        gpu.main_stream.synchronize()

    with pytest.raises(CudaFailed, match="launch failure"):
        decoders.decoder("h264", stream_handle=gpu.main_stream.handle, is_immediate=False)

    assert made.made == []
