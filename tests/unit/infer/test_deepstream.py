"""`compat: deepstream` of models: crops, letterboxes, `every` and boxes at the edge, beside what is right."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.media import Batch, Frame, Stream
from sightline.testing import make_batches
from sightline_plugins.heads.head import Candidates
from sightline_plugins.infer.options import TargetSelection
from sightline_plugins.infer.postprocessing import DetectionRules
from sightline_plugins.infer.selection import BoxSelector
from sightline_plugins.infer.targets import ObjectSelector, RegionSelector, even_regions, region_placements
from sightline_plugins.nms.options import NmsOptions
from sightline_plugins.preprocess.definition import Preprocessing
from sightline_plugins.preprocess.placement import place
from tests.unit.infer.mean_color import GREY, frames, plain_surface, tracked

LIMITS = np.array([0.2, 0.2], np.float32)
SMALL_INPUT = Preprocessing((16, 16))


@pytest.mark.parametrize(
    ("box", "crop"),
    [
        ((101.7, 50.2, 180.9, 99.9), (102, 50, 180, 98)),  # left raised to even; 79.2 and 49.7 lowered to 78 and 48
        ((100.0, 51.0, 164.0, 115.0), (100, 52, 164, 116)),  # even sides stay, and move with an odd corner
        ((-7.5, 3.9, 20.0, 8.0), (0, 4, 26, 8)),
        ((10.0, 10.0, 11.5, 40.0), (10, 10, 12, 40)),  # never less than two pixels
    ],
)
def test_a_crop_begins_at_even_pixels_and_has_even_sides(box: tuple[float, ...], crop: tuple[float, ...]) -> None:
    assert even_regions(np.array([box], np.float32)).tolist() == [list(crop)]


def test_objects_are_cut_at_even_pixels_only_when_asked() -> None:
    (batch,) = make_batches(frames(plain_surface(GREY)))
    seen = tracked(batch, (5, 3, 36, 36))

    def region(*, even: bool) -> tuple[float, ...]:
        selector = ObjectSelector(TargetSelection(), SMALL_INPUT, reinfer_interval_ns=0, even=even)
        return selector.select(seen)[0].placement.region_xyxy

    assert (region(even=False), region(even=True)) == ((5, 3, 36, 36), (6, 4, 36, 36))


@pytest.mark.parametrize(
    ("size_wh", "nearest", "down"),
    [((768, 433), (0, 139, 640, 361), (0, 140, 640, 360)), ((1920, 1080), (0, 140, 640, 360), (0, 140, 640, 360))],
)
def test_a_centred_letterbox_is_rounded_down(
    size_wh: tuple[int, int], nearest: tuple[int, ...], down: tuple[int, ...]
) -> None:
    region = (0, 0, *size_wh)

    assert place(region, size_wh=(640, 640)).inner_xywh == nearest
    assert place(region, size_wh=(640, 640), rounding="down").inner_xywh == down


def rows_of(batches: list[Batch], *, by_batch: bool) -> list[list[int]]:
    """The rows of each batch that a model runs on with `every: 2`."""
    placements = region_placements(SMALL_INPUT, regions_of=lambda _: [(0.0, 0.0, 1.0, 1.0)])
    selector = RegionSelector(placements, every=2, by_batch=by_batch)
    return [[target.row for target in selector.select(batch)] for batch in batches]


def of_streams(*names: str) -> list[Batch]:
    """Batches with one frame of each of these streams, in the order in which a name comes again."""
    surface = plain_surface(GREY)
    return [
        Batch(tuple(Frame(Stream(name), number, number, surface) for name in group))
        for number, group in enumerate(names)
    ]


def test_every_counts_batches_so_that_streams_in_turn_starve() -> None:
    in_turn, together = of_streams("a", "b", "a", "b"), of_streams("ab", "ab", "ab")

    assert rows_of(in_turn, by_batch=False) == [[0], [0], [], []]
    assert rows_of(in_turn, by_batch=True) == [[0], [], [0], []]
    assert rows_of(together, by_batch=False) == rows_of(together, by_batch=True) == [[0, 1], [], [0, 1]]


EDGES = [[-10, 20, 30, 60], [20, -5, 40, 30], [80, 10, 130, 40], [10, 80, 30, 110], [40, 40, 60, 100]]


@pytest.mark.parametrize(
    ("moves_inside", "expected"),
    [
        (False, [[0, 20, 30, 60], [20, 0, 40, 30], [80, 10, 100, 40], [10, 80, 30, 100], [40, 40, 60, 100]]),
        (True, [[0, 20, 40, 60], [20, 0, 40, 35], [80, 10, 130, 40], [40, 40, 60, 100]]),
    ],
)
def test_boxes_at_the_edge_are_clipped_or_moved_and_dropped(moves_inside: bool, expected: list[list[int]]) -> None:
    """Left and top go to 0 with the size kept, the right edge is not cut, what reaches below the frame is dropped."""
    selector = BoxSelector(DetectionRules(NmsOptions(), 0.2, LIMITS, None, moves_inside))
    found = Candidates.from_arrays(np.array(EDGES, np.float32), np.linspace(0.9, 0.5, 5), np.zeros(5))

    chosen, _ = selector.select(found, place((0, 0, 100, 100), size_wh=(100, 100)), size_wh=(100, 100))

    assert chosen.xyxy.tolist() == expected
