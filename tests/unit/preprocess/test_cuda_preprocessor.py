from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.media import PixelFormat, Surface
from sightline.testing import make_frames
from sightline_plugins.preprocess import cuda as cuda_preprocess
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.cuda import JOB, CudaPreprocessor
from sightline_plugins.preprocess.definition import Part, Prepared, Preprocessing
from tests.fakes import FakeCudaDriver

DEFINITION = Preprocessing((64, 48))
WHOLE = (0.0, 0.0, 1.0, 1.0)
BOXES = ((3.5, 2.25, 40.0, 30.5), (-4.0, 5.0, 20.0, 60.0), (8.0, 8.0, 24.0, 24.0))
INPUT_BYTES = 64 * 48 * 3


def surfaces() -> list[Surface]:
    kinds = ((PixelFormat.I420, (131, 77)), (PixelFormat.NV12, (64, 90)), (PixelFormat.BGR24, (33, 20)))
    return [make_frames(1, size_wh=size_wh, pixel_format=kind)[0].surface for kind, size_wh in kinds]


def parts_of(found: Sequence[Surface], definition: Preprocessing = DEFINITION) -> list[Part]:
    whole = [(surface, definition.place_fractions(WHOLE, surface)) for surface in found]
    return [*whole, *((surface, definition.place(box)) for surface in found for box in BOXES)]


def assert_same(made: Sequence[Prepared], expected: Sequence[Prepared]) -> None:
    assert [one.placement for one in made] == [one.placement for one in expected]
    for one, other in zip(made, expected, strict=True):
        assert one.image.flags.c_contiguous
        np.testing.assert_array_equal(one.image, other.image)


@pytest.mark.parametrize(
    "definition",
    [
        DEFINITION,
        Preprocessing((40, 40), fit="stretch", color="gray", mean=(0.5,), pad=(9,)),
        Preprocessing((40, 40), convert="image", color="bgr", mean=(1, 2, 3), scale=(4, 5, 6), pad=(7, 8, 9)),
        Preprocessing(None, fit="native"),
    ],
    ids=["letterbox", "gray", "image", "native"],
)
def test_images_are_those_of_the_cpu(gpu: CudaDevice, definition: Preprocessing) -> None:
    parts = parts_of(surfaces(), definition)

    made = list(CudaPreprocessor(definition, gpu=gpu).prepare_all(parts))

    assert_same(made, list(HostPreprocessor(definition).prepare_all(parts)))


def test_surfaces_may_lie_in_either_memory(gpu: CudaDevice) -> None:
    on_host = surfaces()
    mixed = [on_host[0], on_host[1].to_device(gpu), on_host[2].to_device(gpu)]

    made = list(CudaPreprocessor(DEFINITION, gpu=gpu).prepare_all(parts_of(mixed)))

    assert_same(made, list(HostPreprocessor(DEFINITION).prepare_all(parts_of(on_host))))


def test_all_parts_of_a_batch_are_made_in_one_launch_and_come_down_in_one_copy(
    gpu: CudaDevice, driver: FakeCudaDriver
) -> None:
    parts = parts_of([surface.to_device(gpu) for surface in surfaces()])
    before = gpu.transfers.counts

    list(CudaPreprocessor(DEFINITION, gpu=gpu).prepare_all(parts))

    counts = gpu.transfers.counts
    assert driver.launched == ["preprocess"]
    assert counts.device_to_host_copies == 1
    assert counts.device_to_host_bytes == len(parts) * INPUT_BYTES
    assert counts.host_to_device_bytes - before.host_to_device_bytes == len(parts) * JOB.itemsize


def test_inputs_of_different_sizes_have_a_launch_each_and_keep_their_order(
    gpu: CudaDevice, driver: FakeCudaDriver
) -> None:
    definition = Preprocessing(None, fit="native")
    surface = surfaces()[0]
    parts = [(surface, definition.place(box)) for box in ((0, 0, 20, 20), (0, 0, 40, 40), (4, 4, 30, 30))]

    made = list(CudaPreprocessor(definition, gpu=gpu).prepare_all(parts))

    assert driver.launched == ["preprocess"] * 2
    assert_same(made, list(HostPreprocessor(definition).prepare_all(parts)))


def test_an_image_of_the_host_goes_to_the_gpu_once_for_all_models(gpu: CudaDevice) -> None:
    surface = surfaces()[0]

    for _ in range(2):
        list(CudaPreprocessor(DEFINITION, gpu=gpu).prepare_all(parts_of([surface])))

    image_bytes = sum(plane.nbytes for plane in surface.planes)
    assert gpu.transfers.counts.host_to_device_bytes == image_bytes + 2 * 4 * JOB.itemsize


def test_large_batches_are_made_in_portions(
    gpu: CudaDevice, driver: FakeCudaDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_preprocess, "_MAX_BYTES", 5 * INPUT_BYTES)
    parts = parts_of(surfaces())

    made = list(CudaPreprocessor(DEFINITION, gpu=gpu).prepare_all(parts))

    assert driver.launched == ["preprocess"] * 3
    assert_same(made, list(HostPreprocessor(DEFINITION).prepare_all(parts)))


def test_where_there_is_nothing_to_look_at_nothing_is_done(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    assert list(CudaPreprocessor(DEFINITION, gpu=gpu).prepare_all([])) == []

    assert driver.launched == []


def test_pinned_memory_goes_back_with_the_last_image(gpu: CudaDevice) -> None:
    made = list(CudaPreprocessor(DEFINITION, gpu=gpu).prepare_all(parts_of(surfaces())))
    held = gpu.pinned.lent

    last = made[3].image
    made.clear()
    still_held = gpu.pinned.lent
    del last

    assert (held, still_held, gpu.pinned.lent) == (1, 1, 0)
