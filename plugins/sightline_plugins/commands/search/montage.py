"""The images of tracks side by side, with what is known of each below it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sightline.graph.track_search import FoundTrack

Image = npt.NDArray[np.uint8]

_TILE_WH = (192, 192)
_TEXT_PIXELS = 40
_GAP = 6
_COLUMNS = 5
_BACKGROUND = 24


def montage(tracks: Sequence[FoundTrack]) -> Image:
    """Return one image (height, width, 3), RGB, with the images of all tracks, up to five in a row."""
    columns = max(min(len(tracks), _COLUMNS), 1)
    rows = max(-(-len(tracks) // columns), 1)
    width, height = _TILE_WH[0] + _GAP, _TILE_WH[1] + _TEXT_PIXELS + _GAP
    canvas = np.full((rows * height + _GAP, columns * width + _GAP, 3), _BACKGROUND, np.uint8)
    for number, track in enumerate(tracks):
        row, column = divmod(number, columns)
        top, left = _GAP + row * height, _GAP + column * width
        canvas[top : top + height - _GAP, left : left + _TILE_WH[0]] = _tile(number + 1, track)
    return canvas


def _tile(number: int, track: FoundTrack) -> Image:
    from sightline_plugins.opencv import cv2

    width, height = _TILE_WH
    tile = np.full((height + _TEXT_PIXELS, width, 3), _BACKGROUND, np.uint8)
    rgb = None
    if track.image is not None:
        rgb = cv2.imdecode(np.frombuffer(track.image, np.uint8), cv2.IMREAD_COLOR_RGB)
    if rgb is not None:
        scale = min(width / rgb.shape[1], height / rgb.shape[0])
        size_wh = max(int(rgb.shape[1] * scale), 1), max(int(rgb.shape[0] * scale), 1)
        fitted = cv2.resize(rgb, size_wh, interpolation=cv2.INTER_LINEAR if scale > 1 else cv2.INTER_AREA)
        left, top = (width - size_wh[0]) // 2, (height - size_wh[1]) // 2
        tile[top : top + size_wh[1], left : left + size_wh[0]] = fitted
    score = "" if track.score is None else f" {track.score:.2f}"
    when = f"{track.start_seconds:.1f} s" if track.start is None else f"{track.start:%d.%m. %H:%M:%S}"
    for line, text in enumerate((f"{number}{score} {track.label}", f"{track.stream} {when}")):
        at = (2, height + 16 + 18 * line)
        cv2.putText(tile, text, at, cv2.FONT_HERSHEY_SIMPLEX, 0.45, (235, 235, 235), 1, cv2.LINE_AA)
    return tile
