"""What kernels find and make on a real GPU is what they find and make on the host build or the CPU, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline.media import PixelFormat
from sightline_plugins.draw import cuda_draw, cuda_hide
from sightline_plugins.draw.hiding import Method
from sightline_plugins.heads import cuda as cuda_heads
from sightline_plugins.heads.cuda import plan_decoding
from sightline_plugins.heads.head import Candidates
from sightline_plugins.nms import cuda as cuda_nms
from sightline_plugins.nms.cuda import COUNTS, DETECTION, DetectionBuffers
from sightline_plugins.nms.options import NmsOptions
from sightline_plugins.tile.cuda import CudaShrinker
from tests.parity.kernels import test_draw as drawing
from tests.parity.kernels import test_heads as decoding
from tests.parity.kernels import test_hide as hiding
from tests.parity.kernels.drawn import differing
from tests.parity.kernels.found import candidates
from tests.parity.kernels.images import noise
from tests.parity.kernels.test_nms import crowd, on_the_host
from tests.unit.cuda import test_results_on_a_gpu as on_the_double
from tests.unit.flow import test_on_a_gpu as flow
from tests.unit.tile import test_on_a_gpu as tiles
from tests.unit.warp import test_on_a_gpu as views
from tests.unit.warp import test_turn_on_a_gpu as steadied

pytestmark = pytest.mark.gpu
CHECKS = [check for name, check in vars(on_the_double).items() if name.startswith("test_")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_holds_on_the_double_holds_on_a_gpu(gpu: CudaDevice, check: Callable[[CudaDevice], None]) -> None:
    check(gpu)


@pytest.mark.parametrize("case", decoding.CASES)
def test_heads_find_what_they_find_on_the_host(gpu: CudaDevice, case: str) -> None:
    head, outputs, options = decoding.CASES[case]
    how = decoding.reading(options)
    plan = plan_decoding(head, shapes=[output.shape[1:] for output in outputs], context=how)
    stream = gpu.stream("heads")
    on_gpu = gpu.upload(outputs, stream=stream)
    found = gpu.empty((decoding.IMAGES, plan.boxes), DETECTION, stream=stream)
    counts = gpu.empty((decoding.IMAGES, COUNTS), np.int32, stream=stream)

    plan.launch(gpu.kernels(cuda_heads.SOURCE), on_gpu, finds=DetectionBuffers(found, counts), stream=stream)

    event = stream.record()
    rows, numbers = gpu.download([found.written(event), counts.written(event)]).wait()
    own = [part[: number[0]] for part, number in zip(rows, numbers, strict=True)]
    tables = [candidates(part[np.argsort(part["index"])]) for part in own]
    decoding.assert_equal(tables, decoding.on_the_host(head, outputs, how))


@pytest.mark.parametrize("count", [1, 300, 4000])
def test_the_boxes_that_stay_are_those_of_the_host(gpu: CudaDevice, count: int) -> None:
    tables = [crowd(count, seed=seed) for seed in range(8)]
    options, stream = NmsOptions(), gpu.stream("suppression")
    kernels = gpu.kernels(cuda_nms.SOURCE)
    finds = _candidates(gpu, tables, stream=stream)
    ranked = gpu.empty((len(tables), count), DETECTION, stream=stream)
    kept = gpu.empty((len(tables), options.max_detections), DETECTION, stream=stream)
    told = gpu.empty((len(tables), len(cuda_nms.KEPT_COUNTS)), np.int32, stream=stream)

    cuda_nms.suppress(kernels, finds, kept=cuda_nms.Kept(ranked, kept, told), options=options, stream=stream)

    event = stream.record()
    rows, counts = gpu.download([kept.written(event), told.written(event)]).wait()
    stays = [own["index"][: number[0]].tolist() for own, number in zip(rows, counts, strict=True)]
    assert stays == [on_the_host(table, options) for table in tables]


def test_every_pixel_that_is_drawn_is_that_of_the_host(gpu: CudaDevice) -> None:
    shapes = list(drawing.SHAPES.values())
    images = [drawing.image(seed, shapes=shapes, count=40) for seed in range(60)]
    stream = gpu.stream("drawing")
    on_gpu = [both.by_kernel.to_device(gpu).shared().writable(stream=stream) for both in images]

    packed = cuda_draw.pack([(own.arrays_on(stream), both.noted) for own, both in zip(on_gpu, images, strict=True)])
    assert packed is not None
    (content,) = gpu.upload([packed.content], stream=stream)
    cuda_draw.draw(gpu.kernels(cuda_draw.SOURCE), packed, content=content, stream=stream)

    event = stream.record()
    for own, both in zip(on_gpu, images, strict=True):
        both.by_kernel = own.written(event).to_host()
    assert differing(images) == 0


@pytest.mark.parametrize("method", ["blur", "pixelate"])
def test_every_pixel_that_is_hidden_is_that_of_the_host(gpu: CudaDevice, method: Method) -> None:
    images = [hiding.random_image(seed, method=method, covered=seed % 2 == 0) for seed in range(60)]
    stream = gpu.stream("hiding")
    on_gpu = [own.by_kernel.to_device(gpu).shared().writable(stream=stream) for own in images]

    packed = cuda_hide.pack([(one.arrays_on(stream), own.noted) for one, own in zip(on_gpu, images, strict=True)])
    assert packed is not None
    (content,) = gpu.upload([packed.content], stream=stream)
    cuda_hide.hide(gpu.kernels(cuda_hide.SOURCE), packed, content=content, stream=stream)

    event = stream.record()
    for one, own in zip(on_gpu, images, strict=True):
        own.by_kernel = one.written(event).to_host()
    assert [own.differing for own in images] == [0] * len(images)


@pytest.mark.parametrize("pixel_format", tiles.FORMATS)
def test_every_sample_of_a_tile_is_that_of_the_cpu(gpu: CudaDevice, pixel_format: PixelFormat) -> None:
    frames = [noise(pixel_format, size_wh, seed=number) for number, (size_wh, _) in enumerate(tiles.SIZES)]
    sizes = [target_wh for _, target_wh in tiles.SIZES]

    made = CudaShrinker(gpu).shrunk([(frame.to_device(gpu), size) for frame, size in zip(frames, sizes, strict=True)])

    on_host = [tile.to_host() for tile in made]
    assert [tiles.differing(tile, frame) for tile, frame in zip(on_host, frames, strict=True)] == [0] * len(sizes)


@pytest.mark.parametrize("pixel_format", [*views.FORMATS, PixelFormat.BGR24])
def test_views_are_those_of_the_cpu(gpu: CudaDevice, tmp_path: Path, pixel_format: PixelFormat) -> None:
    views.assert_views_are_those_of_the_cpu(gpu, tmp_path, pixel_format)


def test_reduced_brightness_is_that_of_the_cpu(gpu: CudaDevice) -> None:
    flow.assert_reduced_as_on_the_cpu(gpu)


@pytest.mark.parametrize("mode", ["dense", "sparse"])
def test_flow_is_that_of_the_cpu(gpu: CudaDevice, tmp_path: Path, mode: str) -> None:
    flow.assert_flow_is_that_of_the_cpu(gpu, tmp_path, mode)


@pytest.mark.parametrize("pixel_format", [*steadied.FORMATS, PixelFormat.BGR24])
@pytest.mark.parametrize("border", ["edge", "black", "crop"])
def test_steadied_images_are_those_of_the_cpu(
    gpu: CudaDevice, tmp_path: Path, pixel_format: PixelFormat, border: str
) -> None:
    steadied.assert_steadied_as_on_the_cpu(gpu, tmp_path, pixel_format, border)


def _candidates(gpu: CudaDevice, tables: list[Candidates], *, stream: CudaStream) -> DetectionBuffers:
    """Tables of the same length in the GPU's memory, dense."""
    found = np.zeros((len(tables), len(tables[0])), DETECTION)
    for own, table in zip(found, tables, strict=True):
        own["xyxy"], own["confidence"], own["class_id"] = table.xyxy, table.confidence, table.class_id
        own["index"] = np.arange(len(table))
    counts = np.array([len(tables[0]), 0] * len(tables), np.int32)
    flat, numbers = gpu.upload([found.ravel(), counts], stream=stream)
    return DetectionBuffers(
        replace(flat, shape=found.shape, strides=found.strides),
        replace(numbers, shape=(len(tables), COUNTS), strides=(4 * COUNTS, 4)),
    )
