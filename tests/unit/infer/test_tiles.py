from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sightline_plugins.infer.targets import tile_regions

SIDE = st.integers(1, 3000)
TILE = st.integers(32, 1500)


def test_tiles_are_spread_evenly_after_the_whole_image() -> None:
    regions = tile_regions((1000, 640), tile_wh=(640, 640), overlap=0.2, whole=True)

    assert regions == ((0, 0, 1000, 640), (0, 0, 640, 640), (360, 0, 1000, 640))


def test_a_frame_not_larger_than_a_tile_is_one_target() -> None:
    assert tile_regions((600, 400), tile_wh=(640, 640), overlap=0.2, whole=True) == ((0, 0, 600, 400),)


def test_an_image_as_wide_as_two_tiles_without_overlap_has_two() -> None:
    regions = tile_regions((1280, 640), tile_wh=(640, 640), overlap=0.0, whole=False)

    assert regions == ((0, 0, 640, 640), (640, 0, 1280, 640))


@given(SIDE, TILE, st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9]))
def test_neighbours_share_what_was_asked_for_and_nothing_is_left_out(side: int, tile: int, overlap: float) -> None:
    tiles = tile_regions((side, 32), tile_wh=(tile, 32), overlap=overlap, whole=False)

    assert (tiles[0][0], tiles[-1][2]) == (0, side)
    assert all(right - left == min(tile, side) for left, _, right, _ in tiles)
    shared = [one[2] - other[0] for one, other in pairwise(tiles)]
    assert all(tile > width >= min(tile * overlap, tile - 1) for width in shared)
