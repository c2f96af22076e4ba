"""Plain text in columns, for standard output: aligned, wrapped to the terminal, whole lines when it is piped."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

_NARROWEST_LAST_COLUMN = 24


def output_width() -> int | None:
    """The width to wrap to: that of the terminal, or None when standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def columns(rows: Iterable[Sequence[str]], *, indent: str = "", gap: str = "  ", width: int | None = None) -> str:
    """Rows as aligned columns; the last column is wrapped to `width`."""
    table = [list(row) for row in rows]
    if not table:
        return ""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]) - 1)]
    start = len(indent) + sum(size + len(gap) for size in widths)
    room = None if width is None else max(width - start, _NARROWEST_LAST_COLUMN)
    lines = []
    for *cells, last in table:
        head = indent + "".join(cell.ljust(size) + gap for cell, size in zip(cells, widths, strict=True))
        wrapped = (textwrap.wrap(last, room) if room is not None else [last]) or [""]
        lines += [(head + wrapped[0]).rstrip(), *(" " * start + more for more in wrapped[1:])]
    return "\n".join(lines)


def paragraphs(text: str, *, width: int | None) -> str:
    """A docstring's text with each paragraph filled to `width`, or on one line; indented blocks stay as they are, and
    those between fences are indented.
    """
    filled = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        if lines[0].startswith("```"):
            filled.append("\n".join(f"  {line}" for line in lines[1:-1]))
            continue
        kept = any(line.startswith((" ", "-", "*")) for line in lines)
        joined = " ".join(line.strip() for line in lines)
        filled.append(paragraph if kept else textwrap.fill(joined, width) if width else joined)
    return "\n\n".join(filled)
