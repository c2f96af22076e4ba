"""`draw` and `privacy` on images in a GPU's memory: the CPU's pixels, in place, and nothing comes down."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Element, RunsOn
from sightline.media import Batch, Memory, PixelFormat
from sightline.testing import make_frames, run_element
from sightline.testing.run import site_for
from sightline_plugins.draw.draw import Draw
from sightline_plugins.draw.privacy import Privacy
from tests.fakes import FakeCudaDriver
from tests.unit.draw.crowded import FORMATS, assert_same_images, crowded_batches, on_gpu

HIDE = Privacy.model_validate({"on": ["car", "person"], "detector": "detect-1"})
ELEMENTS: dict[str, Element] = {
    "draw": Draw(clock=True),
    "draw by track": Draw(color="track", trail=10**9, thickness=3, text_size=20),
    "blur": HIDE,
    "pixelate": HIDE.model_copy(update={"method": "pixelate", "shape": "ellipse"}),
    "fill": HIDE.model_copy(update={"method": "fill", "shape": "mask"}),
}


def run(element: Element, batches: list[Batch], gpu: CudaDevice) -> list[Batch]:
    return run_element(element, batches, gpu=gpu)


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("name", ELEMENTS)
def test_pixels_are_those_of_the_cpu(gpu: CudaDevice, name: str, pixel_format: PixelFormat) -> None:
    batches = crowded_batches(pixel_format)

    made = run(ELEMENTS[name], [on_gpu(batch, gpu) for batch in batches], gpu)

    assert_same_images(made, run_element(ELEMENTS[name], batches))
    assert {frame.surface.memory for batch in made for frame in batch.frames} == {Memory.CUDA}


def test_all_images_of_a_batch_are_drawn_on_in_one_launch_and_none_comes_down(
    gpu: CudaDevice, driver: FakeCudaDriver
) -> None:
    batch = on_gpu(crowded_batches(PixelFormat.NV12, rounds=1)[0], gpu)
    before = gpu.transfers.counts

    run(Draw(), [batch], gpu)

    after = gpu.transfers.counts
    assert driver.launched == ["draw"]
    assert after.device_to_host_copies == 0
    assert after.host_to_device_copies == before.host_to_device_copies + 1


def test_an_image_with_nothing_to_draw_passes_as_it_is(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    batch = on_gpu(Batch(tuple(make_frames(2))), gpu)

    [made] = run(Draw(), [batch], gpu)

    assert [frame.surface for frame in made.frames] == [frame.surface for frame in batch.frames]
    assert driver.launched == []


def test_shared_images_are_copied_on_the_gpu_and_exclusive_ones_drawn_on_in_place(gpu: CudaDevice) -> None:
    shared = on_gpu(crowded_batches(PixelFormat.NV12, rounds=1)[0], gpu)
    exclusive = shared.with_surfaces([replace(frame.surface, exclusive=True) for frame in shared.frames])
    before = [plane.to_host() for plane in shared.frames[0].surface.arrays]

    [copied] = run(Draw(), [shared], gpu)
    kept = [plane.to_host() for plane in shared.frames[0].surface.arrays]
    [in_place] = run(Draw(), [exclusive], gpu)

    assert all(np.array_equal(one, other) for one, other in zip(before, kept, strict=True))
    places = [
        batch.frames[0].surface.arrays[0].base_address == shared.frames[0].surface.arrays[0].base_address
        for batch in (copied, in_place)
    ]
    assert places == [False, True]


@pytest.mark.parametrize("name", ["draw", "blur"])
def test_images_in_host_memory_are_changed_there_and_the_report_says_so(gpu: CudaDevice, name: str) -> None:
    on_host = crowded_batches(PixelFormat.NV12)
    operator = ELEMENTS[name].build(site_for(name, None, gpu=gpu))

    made = [operator.process(batch) for batch in (on_gpu(on_host[0], gpu), on_host[1])]

    memories = [frame.surface.memory for batch in made if isinstance(batch, Batch) for frame in batch.frames]
    assert memories == [Memory.CUDA] * 4 + [Memory.HOST] * 4
    drawn = 4 if name == "draw" else 3
    reason = f"{drawn} of {2 * drawn} images lay in host memory, or had more than 8 bits"
    assert operator.runs_on() == RunsOn("cuda:0", reason)


def test_samples_of_16_bits_are_drawn_on_as_levels_of_8_in_host_memory(gpu: CudaDevice) -> None:
    batch = crowded_batches(PixelFormat.NV12, rounds=1)[0]
    stream = gpu.stream("wide")
    wide = [
        replace(
            frame.surface,
            pixels=tuple(gpu.upload([plane.astype(np.uint16) << 8 for plane in frame.surface.planes], stream=stream)),
        )
        for frame in batch.frames
    ]

    made = run(Draw(), [batch.with_surfaces(wide)], gpu)

    assert_same_images(made, run_element(Draw(), [batch]))
