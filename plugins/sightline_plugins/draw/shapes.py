"""What is drawn of objects: boxes, masks, skeletons, trails, captions, and where."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import Arrows, Objects, Skeleton
from sightline.media.shapes import Mask
from sightline_plugins.draw.canvas import Canvas
from sightline_plugins.draw.cpu import Colors, Rgb, TextMask, Typesetter
from sightline_plugins.draw.draw import DrawOptions
from sightline_plugins.opencv import cv2

Rect = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Style:
    """Sizes in pixels for one size of image."""

    thickness: int
    text_size: int

    @property
    def thin(self) -> int:
        """Width of the lines of what was found on another object, and of the edges of masks."""
        return max(1, self.thickness // 2)

    @property
    def small_text_size(self) -> int:
        """Size of the text on what was found on another object."""
        return max(min(9, self.text_size), round(self.text_size * 0.8))

    @classmethod
    def for_height(cls, height: int, *, thickness: int | None, text_size: int | None) -> Style:
        """Line width and text size that read well at this height, unless given: 2 and 12 at 360, 6 and 50 at 2160."""
        return cls(
            thickness=2 * max(1, round(height / 720)) if thickness is None else thickness,
            text_size=max(9, round(12 * (height / 360) ** 0.8)) if text_size is None else text_size,
        )


def visible(rect: Rect, *, size_wh: tuple[int, int]) -> bool:
    """Whether a part of the box is in the image."""
    left, top, right, bottom = rect
    return right > 0 and bottom > 0 and left < size_wh[0] and top < size_wh[1]


def above(rect: Rect, *, text_wh: tuple[int, int], size_wh: tuple[int, int]) -> tuple[int, int]:
    """Left and top (even) of a text on top of a box; inside the box where there is no room above, and in the image
    as far as it fits.
    """
    left, top, _, _ = rect
    width, height = text_wh
    y = top - height
    return _even(min(left, size_wh[0] - width)), max(0, y if y >= 0 else top)


def below(rect: Rect, *, text_wh: tuple[int, int], size_wh: tuple[int, int]) -> tuple[int, int]:
    """Left and top (even) of a text under a box; inside the box where there is no room below, and in the image as far
    as it fits.
    """
    left, _, _, bottom = rect
    width, height = text_wh
    y = bottom if bottom + height <= size_wh[1] else min(bottom, size_wh[1]) - height
    return _even(min(left, size_wh[0] - width)), _even(y)


def centred(point: tuple[float, float], *, text_wh: tuple[int, int], size_wh: tuple[int, int]) -> tuple[int, int]:
    """Left and top (even) of a text around a point, in the image as far as it fits."""
    return (
        _even(min(round(point[0]) - text_wh[0] // 2, size_wh[0] - text_wh[0])),
        _even(min(round(point[1]) - text_wh[1] // 2, size_wh[1] - text_wh[1])),
    )


def _even(number: int) -> int:
    return max(0, number & ~1)


PALETTE: tuple[Rgb, ...] = (
    (230, 159, 0),
    (86, 180, 233),
    (0, 190, 140),
    (240, 228, 66),
    (70, 130, 255),
    (238, 102, 60),
    (226, 130, 190),
    (170, 221, 60),
    (255, 170, 160),
    (150, 110, 230),
    (60, 220, 220),
    (210, 60, 120),
)
"""Orange, sky blue, green, yellow, blue, vermilion and purple after Okabe and Ito ("Color Universal Design", 2008),
the darker ones lightened for dark images, and five that keep their distance from them."""

BLACK: Rgb = (0, 0, 0)
WHITE: Rgb = (255, 255, 255)
LINE: Rgb = (255, 214, 10)
ZONE: Rgb = (64, 200, 255)
ARROW: Rgb = (0, 255, 120)
FORBIDDEN: Rgb = (255, 70, 60)
_ARROW_HEAD = 4
"""Length of an arrow's head at most, in widths of a line."""


def color_of(number: int) -> Rgb:
    """The colour of a class or track, by its number."""
    return PALETTE[number % len(PALETTE)]


@cache
def text_color(background: Rgb) -> Rgb:
    """Black or white, whichever stands out more (contrast ratio of WCAG 2.2, section 1.4.3)."""
    red, green, blue = (_linear(value / 255) for value in background)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return BLACK if (luminance + 0.05) ** 2 > 0.05 * 1.05 else WHITE


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)


@dataclass(frozen=True, slots=True)
class DrawContext:
    """An image that is being drawn on: its canvas, its size, colours as its samples, and sizes that suit it."""

    canvas: Canvas
    size_wh: tuple[int, int]
    inks: Colors
    style: Style

    def text(self, mask: TextMask, *, at: tuple[int, int], background: Rgb) -> None:
        """Put text on a background of that colour."""
        tables = self.inks.tables(background, text_color(background))
        self.canvas.text(mask, left=at[0], top=at[1], tables=tables)


_MASK_OPACITY = 0.4
_HEIGHT_OF_A_PIXEL = 90
"""Height of an object, in pixels, for each pixel of its skeleton's lines: small people get fine lines."""


def draw_masks(context: DrawContext, objects: Objects, colors: Sequence[Rgb]) -> None:
    """Tint the pixels of each mask and draw its edge."""
    masks = objects.extra.get("mask")
    if masks is None:
        return
    for mask, color in zip(masks.tolist(), colors, strict=True):
        if mask is not None and mask.bits.size:
            context.canvas.tint(mask, context.inks.ink(color), opacity=_MASK_OPACITY)
            for edge in _edges(mask):
                context.canvas.polyline(edge, context.inks.ink(color), thickness=context.style.thin, closed=True)


def draw_arrows(context: DrawContext, arrows: Arrows) -> None:
    """Draw arrows, each with a head of a third of its length at most."""
    tail, tip = arrows.ends[:, :2], arrows.ends[:, 2:]
    way = tip - tail
    length = np.hypot(way[:, 0], way[:, 1])[:, None]
    known = np.isfinite(length[:, 0]) & (length[:, 0] > 0)
    tail, tip, way, length = tail[known], tip[known], way[known], length[known]
    if not len(tail):
        return
    reach = np.minimum(length / 3, _ARROW_HEAD * context.style.thickness)
    back, aside = way / length * reach, np.stack([-way[:, 1], way[:, 0]], axis=1) / length * reach * 0.6
    lines = np.stack([tail, tip, tip - back + aside, tip, tip - back - aside], axis=1)
    ink = context.inks.ink(FORBIDDEN if arrows.is_forbidden else ARROW)
    context.canvas.polylines(lines, ink, thickness=context.style.thin, smooth=False)


def draw_boxes(context: DrawContext, objects: Objects, rects: Sequence[Rect], colors: Sequence[Rgb]) -> None:
    """Draw the box of each object: oriented where it has corners, thin where it was found on another object."""
    corners = objects.extra.get("corners")
    turned = [None] * len(objects) if corners is None else [None if np.isnan(own).any() else own for own in corners]
    usual, thin = context.style.thickness, context.style.thin
    for parent, own, rect, color in zip(objects.parent.tolist(), turned, rects, colors, strict=True):
        thickness = usual if parent < 0 else thin
        if own is None:
            context.canvas.outline(rect, context.inks.ink(color), thickness=thickness)
        else:
            context.canvas.polyline(own, context.inks.ink(color), thickness=thickness, closed=True)


def draw_keypoints(context: DrawContext, objects: Objects, colors: Sequence[Rgb], *, confidence: float) -> None:
    """Draw the keypoints of each object that are sure enough, and the lines that join them."""
    column = objects.extra.get("keypoints")
    if column is None:
        return
    skeletons = objects.extra.get("skeleton", np.full(len(objects), None)).tolist()
    sure = (column[..., 2] >= confidence) & np.isfinite(column[..., :2]).all(axis=2)
    heights = (objects.xyxy[:, 3] - objects.xyxy[:, 1]).tolist()
    for row in np.flatnonzero(sure.any(axis=1)).tolist():
        width = min(context.style.thickness, max(1, round(heights[row] / _HEIGHT_OF_A_PIXEL)))
        _draw_skeleton(context, column[row, :, :2], sure[row], skeletons[row], color=colors[row], width=width)


def _draw_skeleton(
    context: DrawContext,
    points: npt.NDArray[np.float32],
    sure: npt.NDArray[np.bool_],
    skeleton: Skeleton | None,
    *,
    color: Rgb,
    width: int,
) -> None:
    joined = () if skeleton is None else skeleton.edges
    known = set(np.flatnonzero(sure).tolist())
    pairs = np.array([pair for pair in joined if known.issuperset(pair)], np.intp).reshape(-1, 2)
    bones = points[pairs]
    if len(bones):
        context.canvas.polylines(bones, context.inks.ink(BLACK), thickness=width + 2, smooth=False, luma_only=True)
        context.canvas.polylines(bones, context.inks.ink(color), thickness=width)
    dots = np.repeat(points[sure][:, None], 2, axis=1)
    context.canvas.polylines(dots, context.inks.ink(BLACK), thickness=2 * width + 2, smooth=False, luma_only=True)
    context.canvas.polylines(dots, context.inks.ink(WHITE if len(bones) else color), thickness=2 * width)


def _edges(mask: Mask) -> list[npt.NDArray[np.int32]]:
    found, _ = cv2.findContours(mask.bits.view(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    corner = np.array([mask.left, mask.top], np.int32)
    return [points.reshape(-1, 2) + corner for points in found]


Point = tuple[float, float]


class Trails:
    """The ways of tracks over the last `duration_ns`; what is older is forgotten, and so are tracks that are gone."""

    def __init__(self, duration_ns: int) -> None:
        self._duration_ns = duration_ns
        self._ways: dict[int, deque[tuple[int, Point]]] = {}

    def __len__(self) -> int:
        return len(self._ways)

    def update(
        self, pts_ns: int, positions: Iterable[tuple[int, Point]], *, spacing: float
    ) -> list[tuple[int, list[Point]]]:
        """Say where tracks are now; return the way of each that moved, oldest point first, the last being now.

        Points nearer than `spacing` pixels to the one before are not kept. Numbers below 0 are no tracks.
        """
        oldest_ns = pts_ns - self._duration_ns
        moved = []
        for track, now in positions:
            if track < 0:
                continue
            way = self._ways.setdefault(track, deque())
            while way and way[0][0] < oldest_ns:
                way.popleft()
            line = [point for _, point in way]
            if not line or _far(line[-1], now, spacing=spacing):
                way.append((pts_ns, now))
            if line and line[-1] != now:
                moved.append((track, [*line, now]))
        self._forget(oldest_ns)
        return moved

    def _forget(self, oldest_ns: int) -> None:
        for track in [track for track, way in self._ways.items() if way[-1][0] < oldest_ns]:
            del self._ways[track]


def _far(a: Point, b: Point, *, spacing: float) -> bool:
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 >= spacing * spacing


_LONGEST = 40
_BESIDES = ("_confidence", "_top", "_uncertainty")
"""Ends of names of attributes that only say more about another one."""

Caption = tuple[str, ...]


def captions_of(objects: Objects, options: DrawOptions) -> list[Caption]:
    """The lines that are written on each object, from top to bottom."""
    nothing = [""] * len(objects)
    names = objects.labels() if options.labels else nothing
    ids = [f"#{i}" if i >= 0 else "" for i in objects.track_id.tolist()] if options.ids else nothing
    sure = [f"{value:.2f}" for value in objects.confidence.tolist()] if options.confidence else nothing
    first = [" ".join(filter(None, words)) for words in zip(names, ids, sure, strict=True)]
    second = _attributes(objects, options.attributes)
    if second is None:
        return [(line,) if line else () for line in first]
    return [tuple(filter(None, lines)) for lines in zip(first, second, strict=True)]


def write_captions(
    context: DrawContext,
    captions: Sequence[Caption],
    objects: Objects,
    rects: Sequence[Rect],
    colors: Sequence[Rgb],
    typesetter: Typesetter,
) -> None:
    """Write each object's lines above its box, or below it where it was found on another object."""
    parents = objects.parent.tolist()
    for parent, caption, rect, color in zip(parents, captions, rects, colors, strict=True):
        if not caption or not visible(rect, size_wh=context.size_wh):
            continue
        place, size = (above, context.style.text_size) if parent < 0 else (below, context.style.small_text_size)
        lines = [typesetter.mask(line, size=size) for line in caption]
        left, top = place(rect, text_wh=_size_of(lines), size_wh=context.size_wh)
        for line in lines:
            context.text(line, at=(left, top), background=color)
            top += line.height


def _size_of(lines: Sequence[TextMask]) -> tuple[int, int]:
    if len(lines) == 1:
        return lines[0].width, lines[0].height
    return max(line.width for line in lines), sum(line.height for line in lines)


def _attributes(objects: Objects, wanted: bool | tuple[str, ...]) -> list[str] | None:
    """The attributes of each object on one line; None when there are none to be written."""
    columns = objects.attributes if wanted else {}
    if not isinstance(wanted, bool):
        columns = {name: columns[name] for name in wanted if name in columns}
    else:
        columns = {name: column for name, column in columns.items() if not _is_besides(name, columns)}
    if not columns:
        return None
    told = [[_shown(name, value) for value in column.tolist()] for name, column in columns.items()]
    return [_shortened("  ".join(filter(None, values))) for values in zip(*told, strict=True)]


def _is_besides(name: str, names: Any) -> bool:
    return any(name.endswith(end) and name.removesuffix(end) in names for end in _BESIDES)


def _shown(name: str, value: object) -> str:
    """A value as people read it; numbers and what is or is not so need their name."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return name if value else ""
    if isinstance(value, float):
        return f"{name} {value:.3g}"
    if isinstance(value, int):
        return f"{name} {value}"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _shortened(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
