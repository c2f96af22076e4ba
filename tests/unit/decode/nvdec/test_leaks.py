"""Nothing is left of a decoder."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from sightline.devices.cuda.device import CudaDevice
from tests.fakes import FakeCudaDriver, NvdecFaults, fake_nvdec
from tests.integration.sources.clips import write_clip
from tests.open_files import needs_descriptors, nothing_left_open
from tests.reading import frames_of, media, reader_of

VISITS = 200


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clip") / "clip.mp4", count=5, b_frames=0)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Released memory is gone at once."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@needs_descriptors
def test_200_decoders_leave_memory_and_files_as_they_were(gpu: CudaDevice, driver: FakeCudaDriver, clip: Path) -> None:
    library = fake_nvdec(gpu)
    held = []
    with without_garbage_collection():
        visit(clip, gpu)  # what is made once
        with nothing_left_open():
            for _ in range(VISITS - 1):
                visit(clip, gpu)
                held.append((driver.live_bytes, gpu.handle_counts, library.open_count))

    assert len(library.made) == VISITS
    assert held[-1] == held[0]
    assert library.open_count == 0


def visit(clip: Path, gpu: CudaDevice) -> None:
    with reader_of(media(clip), gpu) as reader:
        for frame in islice(reader.frames(), 2):
            frame.surface.to_host()


def test_frames_outlive_their_decoder(gpu: CudaDevice, clip: Path) -> None:
    library = fake_nvdec(gpu)

    with reader_of(media(clip), gpu) as reader:
        held = [frame.surface for frame in reader.frames()]
    del reader

    assert library.open_count == 0
    assert [int(surface.to_host().planes[0][0, 0]) for surface in held] == [16, 17, 18, 19, 20]


def test_failed_decoders_are_let_go_of(gpu: CudaDevice, clip: Path) -> None:
    library = fake_nvdec(gpu, faults=NvdecFaults(fail_at=frozenset({2})))

    frames_of(clip, gpu)

    assert library.open_count == 0


def test_a_reader_that_is_closed_in_mid_stream_lets_go_of_its_decoder(gpu: CudaDevice, clip: Path) -> None:
    library = fake_nvdec(gpu)

    with reader_of(media(clip), gpu) as reader:
        next(reader.frames())
        assert library.open_count == 1

    assert library.open_count == 0


def test_a_decoder_whose_gpu_breaks_while_it_is_let_go_of_is_silent(
    gpu: CudaDevice, driver: FakeCudaDriver, clip: Path
) -> None:
    library = fake_nvdec(gpu)

    with reader_of(media(clip), gpu) as reader:
        next(reader.frames())
        driver.fail_next("free_pinned", "CUDA_ERROR_ILLEGAL_ADDRESS")
    del reader

    assert library.open_count == 0
    assert gpu.guard.cause is not None
