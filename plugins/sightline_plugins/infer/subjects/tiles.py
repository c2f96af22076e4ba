"""Tiles of the picture, so that small things in large pictures are seen at their size."""

from __future__ import annotations

from functools import lru_cache
from math import ceil

from sightline.media import Frame
from sightline_plugins.infer.box_options import Tiles
from sightline_plugins.infer.subjects.regions import PlacementsOf
from sightline_plugins.pixels.placement import Placement, Region, whole_samples
from sightline_plugins.pixels.preprocess import Preprocessing


def tile_placements(tiles: Tiles, preprocessing: Preprocessing) -> PlacementsOf:
    """The tiles of a picture row by row, and the whole of it before them where that is wanted.

    Tiles are as large as the network's input unless `tiles` says another size; one of the two is known.
    """
    tile_wh = tiles.size or preprocessing.size_wh
    assert tile_wh is not None

    def placements_of(frame: Frame) -> list[Placement]:
        size_wh, chroma_shift = frame.surface.size_wh, frame.surface.format.chroma_shift
        regions = tile_regions(size_wh, tile_wh=tile_wh, overlap=tiles.overlap, whole=tiles.whole)
        return [
            preprocessing.place(whole_samples(region, size_wh=size_wh, chroma_shift=chroma_shift)) for region in regions
        ]

    return placements_of


@lru_cache(maxsize=256)
def tile_regions(
    size_wh: tuple[int, int], *, tile_wh: tuple[int, int], overlap: float, whole: bool
) -> tuple[Region, ...]:
    """The tiles of a picture in its pixels, after the whole picture (once, where tiles are not smaller).

    Tiles are spread evenly, so that neighbours share at least `overlap` of a tile's side and none is narrower.
    """
    (width, height), (across, down) = size_wh, tile_wh
    tiles = [
        (left, top, min(left + across, width), min(top + down, height))
        for top in _origins(height, tile=down, overlap=overlap)
        for left in _origins(width, tile=across, overlap=overlap)
    ]
    picture = (0, 0, width, height)
    return (picture, *tiles) if whole and tiles != [picture] else tuple(tiles)


def _origins(side: int, *, tile: int, overlap: float) -> tuple[int, ...]:
    if side <= tile:
        return (0,)
    step = max(tile - ceil(tile * overlap), 1)
    count = ceil((side - tile) / step) + 1
    return tuple((side - tile) * number // (count - 1) for number in range(count))
