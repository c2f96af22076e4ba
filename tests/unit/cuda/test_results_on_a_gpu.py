"""What is found and drawn as a run does it: outputs, tables and surfaces in a GPU's memory, in the order of streams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.media import PixelFormat, Surface
from sightline_plugins.draw import cpu as cpu_draw
from sightline_plugins.draw import cuda_draw, cuda_hide, hiding
from sightline_plugins.draw.cpu import Colors, Kind
from sightline_plugins.draw.cuda_hide import HideList
from sightline_plugins.draw.cuda_list import DrawList
from sightline_plugins.heads import cuda as cuda_heads
from sightline_plugins.heads.cuda import plan_decoding
from sightline_plugins.heads.head import DecodeContext
from sightline_plugins.heads.registry import HEADS
from sightline_plugins.nms import cuda as cuda_nms
from sightline_plugins.nms.cpu import suppress
from sightline_plugins.nms.cuda import COUNTS, DETECTION, DetectionBuffers
from sightline_plugins.nms.options import NmsOptions
from tests.fakes import fake_cuda_device

SIZE_WH = (96, 64)
READING = DecodeContext(SIZE_WH, 0.4)
OPTIONS = NmsOptions(max_detections=20)


@pytest.fixture
def gpu() -> Iterator[CudaDevice]:
    with fake_cuda_device(memory_bytes=2**24, pinned_bytes=2**24) as gpu:
        yield gpu


def image(size_wh: tuple[int, int] = SIZE_WH) -> Surface:
    random = np.random.default_rng(size_wh[0])
    surface = Surface.allocate(PixelFormat.NV12, size_wh=size_wh)
    for plane in surface.planes:
        plane[:] = random.integers(0, 256, plane.shape, np.uint8)
    return surface


def assert_same_pixels(found: Surface, expected: Surface) -> None:
    for one, other in zip(found.to_host().planes, expected.planes, strict=True):
        np.testing.assert_array_equal(one, other)


def test_outputs_become_the_boxes_that_stay_without_leaving_the_gpu(gpu: CudaDevice) -> None:
    random = np.random.default_rng(4)
    output = np.concatenate([random.uniform(0, 90, (2, 4, 126)), random.random((2, 3, 126)) ** 3], axis=1)
    stream = gpu.stream("work")
    (on_gpu,) = gpu.upload([output.astype(np.float32)], stream=gpu.stream("network"))
    plan = plan_decoding("yolov8", shapes=[(7, 126)], context=READING)
    found, ranked = (gpu.empty((2, plan.boxes), DETECTION, stream=stream) for _ in range(2))
    kept = gpu.empty((2, OPTIONS.max_detections), DETECTION, stream=stream)
    counts, told = (gpu.empty((2, columns), np.int32, stream=stream) for columns in (COUNTS, len(cuda_nms.KEPT_COUNTS)))
    finds = DetectionBuffers(found, counts)

    plan.launch(gpu.kernels(cuda_heads.SOURCE), [on_gpu], finds=finds, stream=stream)
    cuda_nms.suppress(
        gpu.kernels(cuda_nms.SOURCE), finds, kept=cuda_nms.Kept(ranked, kept, told), options=OPTIONS, stream=stream
    )

    event = stream.record()
    rows, numbers = gpu.download([kept.written(event), told.written(event)]).wait()
    for row in range(2):
        raw = HEADS["yolov8"].decode([output[row : row + 1].astype(np.float32)], READING)
        stays = suppress(raw.xyxy, raw.confidence, raw.class_id, options=OPTIONS)
        own = rows[row, : numbers[row, 0]]
        assert len(own) == len(stays) > 5
        np.testing.assert_array_equal(own["xyxy"], raw.xyxy[stays])
        np.testing.assert_array_equal(own["confidence"], raw.confidence[stays])
        np.testing.assert_array_equal(own["class_id"], raw.class_id[stays])


def test_a_decoded_surface_is_drawn_on_in_a_copy_of_its_own(gpu: CudaDevice) -> None:
    expected = image()
    stream = gpu.stream("drawing")
    surface = expected.to_device(gpu).shared().writable(stream=stream)
    ink = Colors(Kind.of(expected)).ink((200, 30, 90))
    noted = DrawList(PixelFormat.NV12, size_wh=SIZE_WH)
    line = np.array([[[3.0, 5.0], [90.0, 50.0], [40.0, 80.0]]])
    noted.polylines(line, ink, thickness=4)

    drawing = cuda_draw.pack([(surface.arrays_on(stream), noted)])
    assert drawing is not None
    (content,) = gpu.upload([drawing.content], stream=stream)
    cuda_draw.draw(gpu.kernels(cuda_draw.SOURCE), drawing, content=content, stream=stream)

    cpu_draw.polylines(cpu_draw.layers_of(expected), line, ink, thickness=4)
    assert_same_pixels(surface.written(stream.record()), expected)


def test_a_part_of_a_surface_is_hidden(gpu: CudaDevice) -> None:
    expected = image()
    stream = gpu.stream("hiding")
    surface = expected.to_device(gpu).shared().writable(stream=stream)
    ink = Colors(Kind.of(expected)).ink((0, 0, 0))
    noted = HideList(PixelFormat.NV12, size_wh=SIZE_WH)
    noted.hide((10, 8, 60, 70), method="blur", cells=5, ink=ink)

    hidden = cuda_hide.pack([(surface.arrays_on(stream), noted)])
    assert hidden is not None
    (content,) = gpu.upload([hidden.content], stream=stream)
    cuda_hide.hide(gpu.kernels(cuda_hide.SOURCE), hidden, content=content, stream=stream)

    hiding.hide(cpu_draw.layers_of(expected), (10, 8, 60, 70), method="blur", cells=5, ink=ink)
    assert_same_pixels(surface.written(stream.record()), expected)
