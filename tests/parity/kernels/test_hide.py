from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sightline.devices.cuda.driver import KernelSource
from sightline.media import PixelFormat, Surface
from sightline_plugins.draw import cuda_hide, hiding
from sightline_plugins.draw.cpu import Colors, Kind, Rect, layers_of
from sightline_plugins.draw.cuda_hide import HideList
from sightline_plugins.draw.hiding import Cover, Method
from tests.fakes import ORDERS, HostKernels, Order
from tests.parity.kernels.drawn import copied
from tests.parity.kernels.images import noise
from tests.unit.cuda.host_arrays import HostArray, dense

FORMATS = (PixelFormat.NV12, PixelFormat.I420, PixelFormat.RGB24, PixelFormat.GRAY8, PixelFormat.I422)


@dataclass
class Hidden:
    """An image with parts hidden at once, and a list of the same for the kernel."""

    on_host: Surface
    by_kernel: Surface
    noted: HideList

    @classmethod
    def image(cls, pixel_format: PixelFormat, size_wh: tuple[int, int], *, seed: int = 1) -> Hidden:
        surface = noise(pixel_format, size_wh, seed=seed)
        return cls(surface, copied(surface), HideList(pixel_format, size_wh=size_wh))

    def hide(self, rect: Rect, *, method: Method, cells: int, cover: Cover | None = None) -> None:
        ink = Colors(Kind.of(self.on_host)).ink((20, 90, 200))
        hiding.hide(layers_of(self.on_host), rect, method=method, cells=cells, ink=ink, cover=cover)
        self.noted.hide(rect, method=method, cells=cells, ink=ink, cover=cover)

    @property
    def differing(self) -> int:
        planes = zip(self.on_host.planes, self.by_kernel.planes, strict=True)
        return sum(int(np.count_nonzero(one != other)) for one, other in planes)


def run(images: list[Hidden], *, source: KernelSource | Path = cuda_hide.SOURCE, order: Order = "forward") -> None:
    arrays = [[HostArray(plane) for plane in own.by_kernel.planes] for own in images]
    hidden = cuda_hide.pack(list(zip(arrays, (own.noted for own in images), strict=True)))
    if hidden is not None:
        cuda_hide.hide(HostKernels(source, order=order), hidden, content=dense(hidden.content))


def random_image(seed: int, *, method: Method, count: int = 3, covered: bool = False) -> Hidden:
    """An image with parts of random sizes, over each other and beyond the image."""
    random = np.random.default_rng(seed)
    width, height = random.integers(1, 120, 2).tolist()
    own = Hidden.image(FORMATS[seed % len(FORMATS)], (width, height), seed=seed)
    for _ in range(count):
        left, top = (random.integers(-20, 40, 2) * 2).tolist()
        across, down = (random.integers(1, 60, 2) * 2).tolist()
        rect = left, top, left + across, top + down
        cover = None
        if covered:
            seen = hiding.inside(rect, size_wh=(width, height))
            cover = (random.random((seen[3] - seen[1], seen[2] - seen[0])) < 0.2).astype(np.uint8)
        own.hide(rect, method=method, cells=int(random.integers(1, 9)), cover=cover)
    return own


@pytest.mark.parametrize("method", ["blur", "pixelate", "fill"])
def test_every_pixel_is_that_of_the_host(method: Method) -> None:
    images = [random_image(seed, method=method) for seed in range(60)]

    run(images)

    assert [own.differing for own in images] == [0] * len(images)


def test_only_what_is_covered_is_hidden() -> None:
    images = [random_image(seed, method="blur", covered=True) for seed in range(30)]

    run(images)

    assert [own.differing for own in images] == [0] * len(images)


@pytest.mark.parametrize("order", ORDERS)
def test_parts_that_lie_over_each_other_are_hidden_one_after_another(order: Order) -> None:
    own = Hidden.image(PixelFormat.NV12, (160, 90))
    for step in range(4):
        own.hide((10 + 8 * step, 4 * step, 60 + 8 * step, 60), method="blur", cells=5)
    own.hide((140, 70, 160, 90), method="pixelate", cells=3)

    run([own], order=order)

    assert own.differing == 0
    assert max(region.wave for region in own.noted.regions) == 3
    assert own.noted.regions[-1].wave == 0


def test_cells_of_whole_samples_are_as_on_the_host() -> None:
    for cells in (1, 2, 4, 8):
        own = Hidden.image(PixelFormat.NV12, (64, 64), seed=cells)
        own.hide((0, 0, 64, 64), method="blur", cells=cells)

        run([own])

        assert own.differing == 0


def test_an_image_that_is_higher_than_a_block_has_threads_is_hidden_as_a_whole() -> None:
    own = Hidden.image(PixelFormat.NV12, (37, 431))
    own.hide((0, 0, 38, 432), method="pixelate", cells=1)

    run([own])

    assert own.differing == 0


def test_nothing_to_hide_needs_no_launch() -> None:
    own = Hidden.image(PixelFormat.NV12, (32, 16))
    own.hide((40, 0, 60, 10), method="blur", cells=4)

    assert cuda_hide.pack([([HostArray(plane) for plane in own.by_kernel.planes], own.noted)]) is None


def test_more_cells_than_hide_anything_are_refused() -> None:
    own = HideList(PixelFormat.NV12, size_wh=(32, 16))

    with pytest.raises(ValueError, match="has 1 to 8 cells along its longer side, not 9"):
        own.hide(
            (0, 0, 8, 8), method="blur", cells=9, ink=Colors(Kind.of(noise(PixelFormat.NV12, (2, 2)))).ink((0, 0, 0))
        )


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("is_exact);\n        }\n        __syncthreads();", "is_exact);\n        }"),
        ("min(max(cell + 1, 0), cells - 1)", "min(max(cell + 2, 0), cells - 1)"),
    ],
    ids=["barrier", "shifted cell"],
)
def test_a_broken_kernel_is_caught(right: str, wrong: str) -> None:
    own = random_image(5, method="blur")

    run([own], source=KernelSource.read(cuda_hide.SOURCE).replaced(right, wrong))

    assert own.differing > 0
