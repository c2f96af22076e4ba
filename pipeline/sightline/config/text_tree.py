"""A YAML text as a tree of its parts, each with the place of its characters; and edits of single parts of the text.

The tree of `yaml_tree` is for reading: aliases and merges are resolved in it, and values have lines for messages. This
one is for writing: it keeps what stands in the file, so that everything but an edited part stays as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.events import (
    AliasEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from sightline.config.document import Plain, Value, value_of

_COLON = re.compile(r"\s*:")


class CannotEdit(Exception):
    """A part of a text cannot be edited by itself; what is around it has to be written anew."""


@dataclass(slots=True, eq=False)
class Part:
    """A part of a text: the characters from `start` to `end`, without what stands around it.

    `nodes` are the items of a list, or the keys and values of a mapping in turn. An alias has a `target`, the value of
    a mapping a `key`. The end of a block is the end of the last part in it.
    """

    kind: str
    start: int
    end: int
    anchor: str | None = None
    is_flow: bool = False
    text: str = ""
    style: str | None = None
    nodes: list[Part] = field(default_factory=list)
    target: Part | None = None
    key: Part | None = None

    @property
    def is_null(self) -> bool:
        """Whether it is a value that is not there."""
        return self.kind == "scalar" and self.style is None and value_of(self.text) is None

    def entries(self) -> Iterator[tuple[Part, Part]]:
        """Yield the keys and values of a mapping."""
        yield from zip(self.nodes[::2], self.nodes[1::2], strict=True)

    def value(self, key: str) -> Part | None:
        """Return the value that stands under a key in the mapping itself; None when none does."""
        return next((value for name, value in self.entries() if name.kind == "scalar" and name.text == key), None)

    def walk(self) -> Iterator[Part]:
        """Yield it and every part below, without following aliases."""
        yield self
        for node in self.nodes:
            yield from node.walk()


class TextTree:
    """The parts of a valid YAML text, and edits of it that `result` applies."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.root: Part | None = None
        self._stack: list[Part] = []
        self._anchors: dict[str, Part] = {}
        self.edits: list[tuple[int, int, str]] = []
        for event in YAML(typ="safe", pure=True).parse(text):
            self._take(event)

    def replace(self, start: int, end: int, new: str) -> None:
        """Put a text in place of some characters."""
        self.edits.append((start, end, new))

    def is_touched(self, part: Part) -> bool:
        """Whether an edit changes something inside a part."""
        return any(start < part.end and end > part.start for start, end, _ in self.edits)

    def is_replaced(self, part: Part) -> bool:
        """Whether an edit covers a part as a whole."""
        return any(start <= part.start and part.end <= end for start, end, _ in self.edits)

    def result(self) -> str:
        """Return the text with all edits. Raises CannotEdit when two of them overlap."""
        parts, at = [], 0
        for start, end, new in sorted(self.edits, key=lambda edit: edit[:2]):
            if start < at:
                raise CannotEdit
            parts += [self.text[at:start], new]
            at = end
        return "".join([*parts, self.text[at:]])

    def source(self, part: Part) -> str:
        """Return the characters of a part."""
        return self.text[part.start : part.end]

    def line_start(self, at: int) -> int:
        """Return where the line of a character begins."""
        return self.text.rfind("\n", 0, at) + 1

    def line_end(self, at: int) -> int:
        """Return where the line of a character ends: at its line break, which follows a comment, or at the end of the
        text.
        """
        end = self.text.find("\n", at)
        end = len(self.text) if end < 0 else end
        return end - 1 if end > at and self.text[end - 1] == "\r" else end

    def column(self, at: int) -> int:
        """Return how far from the beginning of its line a character stands."""
        return at - self.line_start(at)

    def is_first_on_its_line(self, at: int, *, after: str = "") -> bool:
        """Whether only blanks, and perhaps `after`, stand before a character in its line."""
        return self.text[self.line_start(at) : at].strip() == after

    def behind_colon(self, key: Part) -> int:
        """Return the place behind the colon of a key. Raises CannotEdit when there is none."""
        found = _COLON.match(self.text, key.end)
        if found is None:
            raise CannotEdit
        return found.end()

    def lines_of(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of whole lines, with their line breaks, from one place to another."""
        last = self.line_end(end)
        last += len(self.newline) if last < len(self.text) else 0
        return self.line_start(start), last

    def _take(self, event: Event) -> None:
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            kind = "table" if isinstance(event, MappingStartEvent) else "items"
            anchor = None if event.anchor is None else str(event.anchor)
            part = Part(kind, event.start_mark.index, event.end_mark.index, anchor, bool(event.flow_style))
            self._add(part)
            self._stack.append(part)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            self._close(self._stack.pop(), event)
        elif isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, AliasEvent):
            target = self._anchors[str(event.anchor)]
            self._add(Part("alias", event.start_mark.index, event.end_mark.index, target=target))

    def _scalar(self, event: ScalarEvent) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        end = start + len(self.text[start:end].rstrip())
        anchor = None if event.anchor is None else str(event.anchor)
        self._add(Part("scalar", start, end, anchor, text=str(event.value), style=event.style))

    def _add(self, part: Part) -> None:
        if part.anchor is not None:
            self._anchors[part.anchor] = part
        if not self._stack:
            self.root = self.root or part
            return
        parent = self._stack[-1]
        parent.nodes.append(part)
        if parent.kind == "table" and len(parent.nodes) % 2 == 0:
            part.key = parent.nodes[-2]
            if part.kind == "scalar" and part.start == part.end:  # its mark is that of the next part
                found = _COLON.match(self.text, part.key.end)
                part.start = part.end = part.key.end if found is None else found.end()

    def _close(self, part: Part, event: Event) -> None:
        end = event.end_mark.index
        if part.is_flow and self.text[end - 1 : end] in ("}", "]") and event.start_mark.index < end:
            part.end = end
        else:
            part.end = part.nodes[-1].end if part.nodes else part.end


_SAFE = re.compile(r"[A-Za-z0-9_./](?:[A-Za-z0-9_./ +-]*[A-Za-z0-9_./+-])?")
_MISREAD = re.compile(r"[0-9._+-]+|\.{3}.*|(?i:y|n|yes|no|on|off)")


def scalar(value: Value, *, style: str | None = None) -> str:
    """Return a single value as YAML: in the quotes of what it replaces (`style`), or without, where that is possible.

    >>> scalar("out/{stream}.mp4"), scalar("gate"), scalar("12"), scalar(0.5), scalar(None)
    ('"out/{stream}.mp4"', 'gate', '"12"', '0.5', 'null')
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not isinstance(value, str):
        return repr(value) if math.isfinite(value) else ".nan" if math.isnan(value) else f"{'-' * (value < 0)}.inf"
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    is_safe = _SAFE.fullmatch(value) and not _MISREAD.fullmatch(value) and isinstance(value_of(value), str)
    return value if is_safe and style != '"' else '"' + "".join(map(_escaped, value)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else "\\n" if character == "\n" else f"\\U{ord(character):08x}"


def flow(value: Plain) -> str:
    """Return plain data as YAML in one line.

    >>> flow({"from": [0.1, 0.6], "classes": ["car"]})
    '{from: [0.1, 0.6], classes: [car]}'
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(name)}: {flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(one) for one in value) + "]"
    return scalar(value)
