"""Drawing on surfaces in the device's memory, in place: one launch for all images of a batch.

What goes to the device is what `pack` makes of the lists: commands, and the small masks and tables that they refer to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightline.devices.cuda.driver import Kernels, blocks_for
from sightline_plugins.cuda.records import Bytes, DeviceData, Packing
from sightline_plugins.draw.cuda_list import SHEET, DrawList, check_plane

SOURCE = Path(__file__).with_suffix(".cu")
_TILE, _ROWS = 32, 8


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """What is drawn on the images of a batch: `content` is to be copied to the device as it is.

    `sheets` is how many planes are drawn on, the largest of them `tiles` tiles wide and high; `commands` and `data` say
    where in the content these begin.
    """

    content: Bytes
    sheets: int
    tiles: tuple[int, int]
    commands: int
    data: int


def pack(images: Sequence[tuple[Sequence[DeviceData], DrawList]]) -> Drawing | None:
    """What is drawn on images, each given by its planes and the list of what is drawn on it; None when nothing is.

    The planes are looked up here: they must stay where they are until the drawing is done.
    """
    sheets, commands = [], []
    data = Packing()
    tiles, count = (0, 0), 0
    for arrays, noted in images:
        start = data.nest(noted.data)
        for array, plane, shape in zip(arrays, noted.planes, noted.shapes, strict=True):
            check_plane(array, shape)
            own, points = plane.commands()
            if not len(own):
                continue
            places = start, data.place(points) - start
            extent = (plane.width, plane.height, plane.channels)
            sheets.append((array.address, array.strides[0], *places, *extent, count, len(own), 0))
            commands.append(own)
            count += len(own)
            needed = blocks_for(plane.width, block=_TILE), blocks_for(plane.height, block=_TILE)
            tiles = max(tiles[0], needed[0]), max(tiles[1], needed[1])
    if not sheets:
        return None
    content = Packing()
    content.place(np.array(sheets, SHEET))
    first, second = content.place(np.concatenate(commands)), content.nest(data)
    return Drawing(content.joined(), len(sheets), tiles, first, second)


def draw(kernels: Kernels, drawing: Drawing, *, content: DeviceData, stream: object = None) -> None:
    """Draw, in place; `content` is the drawing's content on the device.

    The caller sees to it that the stream waits for the planes (`arrays_on`), and that nobody else reads them.
    """
    kernels["draw"](
        content,
        drawing.commands,
        drawing.data,
        grid=(*drawing.tiles, drawing.sheets),
        block=(_TILE, _ROWS),
        stream=stream,
    )
