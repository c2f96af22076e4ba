"""Arrays in GPU memory for other libraries: DLPack and `__cuda_array_interface__`, without any of those libraries."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Span
from sightline.devices.cuda.pools import CudaPool
from sightline.errors import SurfaceReleased
from sightline.media import PixelFormat
from sightline.media.device_array import DeviceArray
from sightline.testing import make_frames
from tests.fakes.cuda_driver import FakeCudaDriver
from tests.unit.media.dlpack_consumer import consume, name_of

VALUES = np.arange(30, dtype=np.int16).reshape(5, 6)


@pytest.fixture
def pool(gpu: CudaDevice) -> CudaPool:
    return gpu.pool("arrays", limit_count=1)


@pytest.fixture
def array(gpu: CudaDevice, pool: CudaPool) -> DeviceArray:
    stream = gpu.stream("making it")
    target = gpu.empty(VALUES.shape, VALUES.dtype, stream=stream, pool=pool)
    return gpu.fill(target, 3, stream=stream)


@pytest.mark.parametrize(
    ("version", "name"),
    [(None, b"dltensor"), ((0, 8), b"dltensor"), ((1, 0), b"dltensor_versioned"), ((1, 3), b"dltensor_versioned")],
)
def test_a_capsule_says_what_there_is_and_where(
    array: DeviceArray, version: tuple[int, int] | None, name: bytes
) -> None:
    capsule = array.__dlpack__(stream=1, max_version=version)

    assert name_of(capsule) == name
    consumed = consume(capsule)
    assert consumed.address == array.address
    assert (consumed.shape, consumed.strides) == ([5, 6], [6, 1])
    assert consumed.kind == (0, 16, 1)
    assert consumed.device == array.__dlpack_device__() == (2, 0)
    consumed.let_go()


@pytest.mark.parametrize(
    ("dtype", "kind"), [("u1", (1, 8, 1)), ("f4", (2, 32, 1)), ("f2", (2, 16, 1)), ("?", (6, 8, 1))]
)
def test_types_have_their_numbers(gpu: CudaDevice, dtype: str, kind: tuple[int, int, int]) -> None:
    consumed = consume(gpu.empty((4,), dtype, stream=gpu.main_stream).__dlpack__(stream=-1))

    assert consumed.kind == kind
    consumed.let_go()


def test_rows_of_images_are_strided(gpu: CudaDevice) -> None:
    surface = make_frames(1, pixel_format=PixelFormat.NV12)[0].surface.to_device(gpu)

    consumed = consume(surface.__dlpack__(stream=2))

    assert (consumed.shape, consumed.strides) == ([72, 64], [256, 1])
    consumed.let_go()


def test_memory_is_kept_until_the_consumer_lets_it_go(gpu: CudaDevice, pool: CudaPool) -> None:
    consumed = consume(gpu.empty((4,), np.uint8, stream=gpu.main_stream, pool=pool).__dlpack__(stream=1))

    before = pool.lent
    consumed.let_go()

    assert (before, pool.lent) == (1, 0)


def test_a_capsule_that_nobody_consumes_lets_the_memory_go(gpu: CudaDevice, pool: CudaPool) -> None:
    capsule = gpu.empty((4,), np.uint8, stream=gpu.main_stream, pool=pool).__dlpack__(stream=1)

    before = pool.lent
    del capsule

    assert (before, pool.lent) == (1, 0)


def test_the_consumer_may_let_go_in_another_thread(gpu: CudaDevice, pool: CudaPool) -> None:
    consumed = consume(gpu.empty((4,), np.uint8, stream=gpu.main_stream, pool=pool).__dlpack__(stream=1))

    thread = threading.Thread(target=consumed.let_go)
    thread.start()
    thread.join()

    assert pool.lent == 0


@pytest.mark.parametrize("stream", [None, 1, 2])
def test_the_consumers_stream_sees_the_content(
    gpu: CudaDevice, driver: FakeCudaDriver, array: DeviceArray, stream: int | None
) -> None:
    consumed = consume(array.__dlpack__(stream=stream))

    assert read_on(gpu, driver, consumed.address, stream=stream or 1) == {3}
    consumed.let_go()


def test_a_consumer_that_asks_for_no_order_gets_none(
    gpu: CudaDevice, driver: FakeCudaDriver, array: DeviceArray
) -> None:
    consumed = consume(array.__dlpack__(stream=-1))

    assert read_on(gpu, driver, consumed.address, stream=1) != {3}
    consumed.let_go()


def test_memory_is_not_lent_again_before_the_consumers_stream_is_done_with_it(
    gpu: CudaDevice, driver: FakeCudaDriver, pool: CudaPool
) -> None:
    stream = gpu.stream("making it")
    array = gpu.fill(gpu.empty((8,), np.uint8, stream=stream, pool=pool), 3, stream=stream)
    consumed = consume(array.__dlpack__(stream=1))
    seen = gpu.pinned.lease(8)
    with gpu.guard("reading") as verbs:
        verbs.copy(Span(seen.address, 8, on_host=True), Span(consumed.address, 8), width_bytes=8, rows=1, stream=1)

    del array
    consumed.let_go()
    gpu.fill(gpu.empty((8,), np.uint8, stream=stream, pool=pool), 9, stream=stream).to_host()

    assert set(seen.array((8,)).tolist()) == {3}


@pytest.mark.parametrize("options", [{"copy": True}, {"dl_device": (1, 0)}, {"dl_device": (2, 1)}])
def test_no_copy_is_made_in_silence(array: DeviceArray, options: dict[str, object]) -> None:
    with pytest.raises(BufferError, match=r"to_host\(\) gives a copy"):
        array.__dlpack__(**options)  # type: ignore[arg-type]


def test_stream_0_means_nothing(array: DeviceArray) -> None:
    with pytest.raises(ValueError, match="does not allow stream 0"):
        array.__dlpack__(stream=0)


def test_a_type_without_a_number_is_refused(gpu: CudaDevice) -> None:
    records = gpu.empty((4,), np.dtype([("x", "f4"), ("y", "u1")]), stream=gpu.main_stream)

    with pytest.raises(BufferError, match="DLPack has no elements of type"):
        records.__dlpack__(stream=1)


def test_the_array_interface_names_the_stream_to_wait_for(array: DeviceArray) -> None:
    assert array.ready is not None
    assert array.__cuda_array_interface__ == {
        "shape": (5, 6),
        "strides": None,
        "typestr": "<i2",
        "data": (array.address, False),
        "stream": array.ready.stream.handle,
        "version": 3,
    }


def test_the_array_interface_of_an_image_has_strides(gpu: CudaDevice) -> None:
    surface = make_frames(1, pixel_format=PixelFormat.NV12)[0].surface.to_device(gpu)

    assert surface.__cuda_array_interface__["strides"] == (256, 1)
    assert surface.arrays[1].__cuda_array_interface__["shape"] == (24, 32, 2)


def test_what_was_given_back_is_exported_no_more(gpu: CudaDevice) -> None:
    buffer = gpu.memory.lease(16, stream=gpu.main_stream)
    array = DeviceArray(buffer.address, (16,), np.dtype(np.uint8), buffer)
    buffer.release()

    with pytest.raises(SurfaceReleased):
        array.__cuda_array_interface__  # noqa: B018


def read_on(gpu: CudaDevice, driver: FakeCudaDriver, address: int, *, stream: int) -> set[int]:
    """What a consumer's kernel sees that runs on its stream."""
    seen = gpu.pinned.lease(8)
    with gpu.guard("reading") as verbs:
        verbs.copy(Span(seen.address, 8, on_host=True), Span(address, 8), width_bytes=8, rows=1, stream=stream)
        verbs.synchronize(stream)
    return set(seen.array((8,)).tolist())
