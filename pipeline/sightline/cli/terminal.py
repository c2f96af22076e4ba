"""Text from outside must not steer the terminal: control characters are printed as their codes.

Names, labels, keys, answers of servers and exceptions may hold escape sequences. They are made visible where the
command prints, which is one place, instead of in every message.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO, cast

_ALLOWED = "\n\t"
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Separators of lines and paragraphs, and what changes the direction of the text that follows."""
_VISIBLE = {
    **{code: f"\\x{code:02x}" for code in _CONTROLS if chr(code) not in _ALLOWED},
    **{code: f"\\u{code:04x}" for code in _DIRECTIONS},
}


def visible(text: str) -> str:
    r"""Return the text with control characters written as codes; line ends and tabs stay.

    >>> print(visible("gate\x1b[31m"))
    gate\x1b[31m
    """
    return text.translate(_VISIBLE)


class VisibleStream:
    """A text stream that makes control characters visible; all else is that of `stream`."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, made visible."""
        return self.stream.write(visible(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines, made visible."""
        self.stream.writelines(map(visible, lines))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            return getattr(self.stream, name)


def make_output_visible() -> None:
    """Print through `VisibleStream` from now on, on standard output and standard error."""
    sys.stdout = cast("TextIO", VisibleStream(sys.stdout))
    sys.stderr = cast("TextIO", VisibleStream(sys.stderr))


def raw(stream: TextIO) -> TextIO:
    """Return the stream below, for one who draws on the terminal and makes texts visible itself."""
    return stream.stream if isinstance(stream, VisibleStream) else stream
