from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from sightline.devices.cuda.driver import KernelSource
from sightline.media import HeatLayer, PixelFormat
from sightline.media.shapes import Mask
from sightline_plugins.draw import cuda_draw
from sightline_plugins.draw.cpu import Rgb, Typesetter, snap
from sightline_plugins.draw.cuda_list import DrawList
from tests.fakes import ORDERS, Order
from tests.parity.kernels.drawn import Both, differing, draw_noted
from tests.unit.cuda.host_arrays import HostArray

Shape = Callable[[np.random.Generator, Both], None]
FORMATS = (PixelFormat.NV12, PixelFormat.I420, PixelFormat.RGB24, PixelFormat.GRAY8, PixelFormat.I422, PixelFormat.I444)
TYPESETTER = Typesetter()


def color(random: np.random.Generator) -> Rgb:
    red, green, blue = random.integers(0, 256, 3).tolist()
    return red, green, blue


def points(random: np.random.Generator, both: Both, *counts: int, around: float = 30) -> npt.NDArray[np.float32]:
    found = random.uniform(-around, max(both.size_wh) + around, (*counts, 2)).astype(np.float32)
    return np.round(found) if random.random() < 0.3 else found


def boxes(random: np.random.Generator, both: Both) -> None:
    corners = np.sort(points(random, both, 2), axis=0).reshape(1, 4)
    (rect,) = snap(corners)
    both.outline(rect, color(random), thickness=int(random.integers(1, 7)))
    both.fill((rect[0] + 8, rect[1] + 6, rect[2] - 2, rect[3] - 12), color(random))


def texts(random: np.random.Generator, both: Both) -> None:
    mask = TYPESETTER.mask(f"car #{random.integers(99)}", size=int(random.integers(9, 30)))
    left, top = (random.integers(-20, 60, 2) * 2).tolist()
    both.text(mask, color(random), color(random), left=left, top=top)


def masks(random: np.random.Generator, both: Both) -> None:
    left, top, height, width = (random.integers(-30, 70, 4)).tolist()
    bits = random.random((abs(height) + 1, abs(width) + 1)) < 0.5
    both.tint(Mask(left, top, bits), color(random), opacity=float(random.random()))


def polygons(random: np.random.Generator, both: Both) -> None:
    corners = points(random, both, int(random.integers(3, 9)))
    both.polygon(corners, color(random), opacity=float(random.random()))


def lines(random: np.random.Generator, both: Both) -> None:
    thin, smooth, closed = random.random(3) < 0.5
    ways = points(random, both, 2, int(random.integers(2, 7)), around=random.choice([5, 30, 4000]))
    width = 1 if thin else int(random.integers(2, 13))
    both.polylines(ways, color(random), thickness=width, closed=bool(closed), smooth=bool(smooth))


def dots(random: np.random.Generator, both: Both) -> None:
    spots = np.repeat(points(random, both, 3, 1, around=8), 2, axis=1)
    smooth, luma_only = (random.random(2) < 0.5).tolist()
    width = int(random.integers(1, 40))
    both.polylines(spots, color(random), thickness=width, closed=False, smooth=smooth, luma_only=luma_only)


def heats(random: np.random.Generator, both: Both) -> None:
    levels = random.integers(0, 256, random.integers(1, 12, 2), np.uint8)
    levels[random.random(levels.shape) < 0.6] = 0
    both.heat(HeatLayer(levels, float(random.random())))


SHAPES: dict[str, Shape] = {
    "heats": heats,
    "boxes": boxes,
    "texts": texts,
    "masks": masks,
    "polygons": polygons,
    "lines": lines,
    "dots": dots,
}


def image(seed: int, *, shapes: list[Shape], count: int = 4) -> Both:
    random = np.random.default_rng(seed)
    width, height = random.integers(2, 100, 2).tolist()
    both = Both(FORMATS[seed % len(FORMATS)], (width, height), seed=seed)
    for _ in range(count):
        shapes[int(random.integers(len(shapes)))](random, both)
    return both


@pytest.mark.parametrize("shape", SHAPES)
def test_every_pixel_is_that_of_the_host(shape: str) -> None:
    images = [image(seed, shapes=[SHAPES[shape]]) for seed in range(30)]

    draw_noted(images)

    assert differing(images) == 0


@pytest.mark.parametrize("order", ORDERS)
def test_later_shapes_lie_over_earlier_ones(order: Order) -> None:
    images = [image(seed, shapes=list(SHAPES.values()), count=60) for seed in range(100, 106)]

    draw_noted(images, order=order)

    assert differing(images) == 0


def test_more_commands_than_a_block_has_threads_keep_their_order() -> None:
    both = image(3, shapes=[boxes], count=400)

    draw_noted([both])

    assert differing([both]) == 0


def test_a_line_of_one_point_is_none() -> None:
    both = Both(PixelFormat.NV12, (32, 16))

    both.polylines(np.array([[[5.0, 5]], [[8, 8]]]), (1, 2, 3), thickness=2, closed=False, smooth=True)
    both.polylines(np.array([[[5.0, 5], [9, 9], [2, 3]]]), (1, 2, 3), thickness=2, closed=True, smooth=True)
    draw_noted([both])

    assert differing([both]) == 0


def test_an_image_with_nothing_to_draw_needs_no_launch() -> None:
    both = Both(PixelFormat.NV12, (32, 16))

    assert cuda_draw.pack([([HostArray(plane) for plane in both.by_kernel.planes], both.noted)]) is None


def test_what_lies_outside_of_the_image_is_not_even_noted() -> None:
    both = Both(PixelFormat.NV12, (32, 16))

    both.fill((40, 0, 60, 10), (1, 2, 3))
    both.polygon(np.array([[50, 50], [60, 50], [60, 60]]), (1, 2, 3), opacity=0.5)
    both.polylines(np.array([[[50.0, 50], [60, 50]]]), (1, 2, 3), thickness=2, closed=False, smooth=True)

    assert not any(len(plane.commands()[0]) for plane in both.noted.planes)


def test_a_list_for_another_size_is_refused() -> None:
    both = Both(PixelFormat.NV12, (32, 16))
    noted = DrawList(PixelFormat.NV12, size_wh=(32, 18))

    with pytest.raises(ValueError, match=r"a list for a plane of \(18, 32\) cannot be drawn on uint8 of \(16, 32\)"):
        cuda_draw.pack([([HostArray(plane) for plane in both.by_kernel.planes], noted)])


def test_masks_and_tables_that_come_twice_go_to_the_device_once() -> None:
    both = Both(PixelFormat.NV12, (320, 160))
    mask = TYPESETTER.mask("truck", size=12)
    both.text(mask, (0, 0, 0), (255, 255, 255), left=0, top=0)
    once = both.noted.data.size_bytes

    both.text(mask, (0, 0, 0), (255, 255, 255), left=20, top=40)

    assert both.noted.data.size_bytes == once


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("reached[thread / 32] = votes;\n        __syncthreads();", "reached[thread / 32] = votes;"),
        ("word * 32 + __ffs(rest) - 1", "word * 32 + __ffs(rest)"),
    ],
    ids=["barrier", "shifted command"],
)
def test_a_broken_kernel_is_caught(right: str, wrong: str) -> None:
    broken = KernelSource.read(cuda_draw.SOURCE).replaced(right, wrong)
    shapes = [shape for name, shape in SHAPES.items() if name != "heats"]  # of a wrong command it reads any memory
    images = [image(seed, shapes=shapes, count=20) for seed in range(3)]

    draw_noted(images, source=broken)

    assert differing(images) > 0
