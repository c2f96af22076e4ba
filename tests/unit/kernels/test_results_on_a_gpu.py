"""What is found and drawn as a run does it: outputs, tables and surfaces in a GPU's memory, in the order of streams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sightline.devices.gpu.gpu import Gpu
from sightline.media import PixelFormat, Surface
from sightline.testing.gpu import double_gpu
from sightline_plugins.heads.cuda_plans import plan_decoding
from sightline_plugins.heads.head import DecodeContext
from sightline_plugins.heads.registry import HEADS
from sightline_plugins.kernels import dewarp, draw, heads, hide, nms, tile
from sightline_plugins.kernels.detections import COUNTS, DETECTION, Finds
from sightline_plugins.kernels.draw_list import DrawList
from sightline_plugins.kernels.hide import HideList
from sightline_plugins.kernels.surfaces import SurfaceView
from sightline_plugins.nms import NmsOptions
from sightline_plugins.nms.greedy import suppress
from sightline_plugins.raster import hiding, planes
from sightline_plugins.raster.inks import Inks, Kind

SIZE_WH = (96, 64)
READING = DecodeContext(SIZE_WH, 0.4)
OPTIONS = NmsOptions(max_detections=20)


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    with double_gpu(memory_bytes=2**24, pinned_bytes=2**24) as gpu:
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


def test_outputs_become_the_boxes_that_stay_without_leaving_the_gpu(gpu: Gpu) -> None:
    random = np.random.default_rng(4)
    output = np.concatenate([random.uniform(0, 90, (2, 4, 126)), random.random((2, 3, 126)) ** 3], axis=1)
    stream = gpu.stream("work")
    (on_gpu,) = gpu.upload([output.astype(np.float32)], stream=gpu.stream("network"))
    plan = plan_decoding("yolov8", shapes=[(7, 126)], context=READING)
    found, ranked = (gpu.empty((2, plan.boxes), DETECTION, stream=stream) for _ in range(2))
    kept = gpu.empty((2, OPTIONS.max_detections), DETECTION, stream=stream)
    counts, told = (gpu.empty((2, columns), np.int32, stream=stream) for columns in (COUNTS, len(nms.KEPT_COUNTS)))
    finds = Finds(found, counts)

    plan.launch(gpu.kernels(heads.SOURCE), [on_gpu], finds=finds, stream=stream)
    nms.suppress(gpu.kernels(nms.SOURCE), finds, kept=nms.Kept(ranked, kept, told), options=OPTIONS, stream=stream)

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


def test_a_decoded_surface_is_drawn_on_in_a_copy_of_its_own(gpu: Gpu) -> None:
    expected = image()
    stream = gpu.stream("drawing")
    surface = expected.to_device(gpu).shared().writable(stream=stream)
    ink = Inks(Kind.of(expected)).ink((200, 30, 90))
    noted = DrawList(PixelFormat.NV12, size_wh=SIZE_WH)
    line = np.array([[[3.0, 5.0], [90.0, 50.0], [40.0, 80.0]]])
    noted.polylines(line, ink, thickness=4)

    drawing = draw.pack([(surface.arrays_on(stream), noted)])
    assert drawing is not None
    (content,) = gpu.upload([drawing.content], stream=stream)
    draw.draw(gpu.kernels(draw.SOURCE), drawing, content=content, stream=stream)

    planes.polylines(planes.layers_of(expected), line, ink, thickness=4)
    assert_same_pixels(surface.written(stream.record()), expected)


def test_a_part_of_a_surface_is_hidden(gpu: Gpu) -> None:
    expected = image()
    stream = gpu.stream("hiding")
    surface = expected.to_device(gpu).shared().writable(stream=stream)
    ink = Inks(Kind.of(expected)).ink((0, 0, 0))
    noted = HideList(PixelFormat.NV12, size_wh=SIZE_WH)
    noted.hide((10, 8, 60, 70), method="blur", cells=5, ink=ink)

    hidden = hide.pack([(surface.arrays_on(stream), noted)])
    assert hidden is not None
    (content,) = gpu.upload([hidden.content], stream=stream)
    hide.hide(gpu.kernels(hide.SOURCE), hidden, content=content, stream=stream)

    hiding.hide(planes.layers_of(expected), (10, 8, 60, 70), method="blur", cells=5, ink=ink)
    assert_same_pixels(surface.written(stream.record()), expected)


def test_surfaces_are_put_together(gpu: Gpu) -> None:
    images = [image(), image((48, 32))]
    stream = gpu.stream("tiling")
    target = gpu.new_surface(PixelFormat.NV12, size_wh=(144, 64), stream=stream)
    on_gpu = [SurfaceView.of(one, one.arrays_on(stream)) for one in (each.to_device(gpu) for each in images)]
    mosaic = SurfaceView.of(target, target.arrays_on(stream))
    kernels = gpu.kernels(tile.SOURCE)

    tiles = tile.arrange(list(zip(on_gpu, [(0, 0, 96, 64), (96, 0, 48, 32)], strict=True)), target=mosaic)
    (content,) = gpu.upload([tiles.content], stream=stream)
    tile.fill_surface(kernels, mosaic, stream=stream)
    tile.fill_tiles(kernels, tiles, content=content, stream=stream)

    luma, chroma = target.written(stream.record()).to_host().planes
    np.testing.assert_array_equal(luma[:, :96], images[0].planes[0])
    np.testing.assert_array_equal(chroma[:16, 48:], images[1].planes[1])
    assert (luma[32:, 96:] == 16).all()


def test_a_surface_is_dewarped(gpu: Gpu) -> None:
    source = image()
    stream = gpu.stream("dewarping")
    target = gpu.new_surface(PixelFormat.NV12, size_wh=SIZE_WH, stream=stream)
    taken, made = (SurfaceView.of(one, one.arrays_on(stream)) for one in (source.to_device(gpu), target))
    mirrored = np.stack(np.meshgrid(np.arange(96)[::-1], np.arange(64)), axis=-1).astype(np.float32)
    (xy,) = gpu.upload([mirrored], stream=stream)

    dewarp.dewarp(gpu.kernels(dewarp.SOURCE), taken, target=made, xy=xy, border=(16, 128, 128), stream=stream)

    luma, chroma = target.written(stream.record()).to_host().planes
    np.testing.assert_array_equal(luma, source.planes[0][:, ::-1])
    np.testing.assert_array_equal(chroma, source.planes[1][:, ::-1])
