"""Drawing on surfaces in the device's memory, in place: one launch for all pictures of a batch.

What goes to the device is what `pack` makes of the lists: commands, and the small masks and tables that they refer to.
No GPU has run this yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightline.devices.gpu.launching import Kernels, blocks_for
from sightline_plugins.kernels.device_data import DeviceData
from sightline_plugins.kernels.draw_data import COMMAND_FIELDS, SHEET, Bytes
from sightline_plugins.kernels.draw_list import DrawList, check_plane

SOURCE = Path(__file__).with_suffix(".cu")
_TILE, _ROWS = 32, 8
_ALIGNED = 256


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """What is drawn on the pictures of a batch: `content` is to be copied to the device as it is.

    `sheets` is how many planes are drawn on, the largest of them `tiles` tiles wide and high; `commands` and `data` say
    where in the content these begin.
    """

    content: Bytes
    sheets: int
    tiles: tuple[int, int]
    commands: int
    data: int


def pack(pictures: Sequence[tuple[Sequence[DeviceData], DrawList]]) -> Drawing | None:
    """What is drawn on pictures, each given by its planes and the list of what is drawn on it; None when nothing is.

    The planes are looked up here: they must stay where they are until the drawing is done.
    """
    sheets, commands, data, size = [], [], [], 0
    tiles, count = (0, 0), 0
    for arrays, noted in pictures:
        for array, plane, shape in zip(arrays, noted.planes, noted.shapes, strict=True):
            check_plane(array, shape)
            own = plane.commands()
            if not len(own):
                continue
            extent = (plane.width, plane.height, plane.channels)
            sheets.append((array.address, array.strides[0], size, *extent, count, len(own), 0))
            commands.append(own)
            count += len(own)
            needed = blocks_for(plane.width, block=_TILE), blocks_for(plane.height, block=_TILE)
            tiles = max(tiles[0], needed[0]), max(tiles[1], needed[1])
        data.append((size, noted.data))
        size += _rounded(noted.data.size_bytes)
    if not sheets:
        return None
    first = _rounded(len(sheets) * SHEET.itemsize)
    start = first + _rounded(count * len(COMMAND_FIELDS) * 4)
    content = np.zeros(start + size, np.uint8)
    content[: len(sheets) * SHEET.itemsize] = np.array(sheets, SHEET).view(np.uint8)
    content[first : first + count * len(COMMAND_FIELDS) * 4] = np.concatenate(commands).reshape(-1).view(np.uint8)
    for place, own_data in data:
        own_data.write(content[start + place :])
    return Drawing(content, len(sheets), tiles, first, start)


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


def _rounded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
