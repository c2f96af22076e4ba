"""What is written on objects: label, number of the track, confidence, and below them what else was found out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline.media import Objects
from sightline_plugins.draw.layout import Rect, above, below, visible
from sightline_plugins.draw.options import DrawOptions
from sightline_plugins.draw.sheet import Sheet
from sightline_plugins.raster.glyphs import TextMask, Typesetter
from sightline_plugins.raster.inks import Rgb

_LONGEST = 40
_BESIDES = ("_confidence", "_top")
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
    sheet: Sheet,
    captions: Sequence[Caption],
    objects: Objects,
    rects: Sequence[Rect],
    colors: Sequence[Rgb],
    typesetter: Typesetter,
) -> None:
    """Write each object's lines above its box, or below it where it was found on another object."""
    parents = objects.parent.tolist()
    for parent, caption, rect, color in zip(parents, captions, rects, colors, strict=True):
        if not caption or not visible(rect, size_wh=sheet.size_wh):
            continue
        place, size = (above, sheet.style.text_size) if parent < 0 else (below, sheet.style.small_text_size)
        lines = [typesetter.mask(line, size=size) for line in caption]
        left, top = place(rect, text_wh=_size_of(lines), size_wh=sheet.size_wh)
        for line in lines:
            sheet.text(line, at=(left, top), background=color)
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
