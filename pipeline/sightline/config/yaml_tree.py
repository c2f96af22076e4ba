"""Parse YAML into a tree that knows file, line and column of each value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from sightline.config.document import (
    Entry,
    InvalidConfiguration,
    Items,
    LocatedProblem,
    Node,
    Place,
    Scalar,
    Table,
    value_of,
)


def explain(error: MarkedYAMLError, text: str) -> str:
    """One sentence for a syntax error: what is wrong where the reader stopped, and the usual remedy."""
    problem, context = str(error.problem or ""), str(error.context or "")
    stopped = _character(error.problem_mark, text)
    if stopped == "\t":
        return "a tab stands here: YAML is indented with spaces only"
    if "cannot start any token" in problem:
        return f"a text cannot start with {stopped!r}: put it in quotes"
    if "mapping values are not allowed" in problem:
        return (
            "a colon is not expected here: check the indentation of this line and the one before, "
            "and put texts that hold ': ' in quotes"
        )
    if "sequence entries are not allowed" in problem:
        standard = "standard input and output are written '-', in quotes"
        return f"a list entry is not expected here: check the indentation; {standard}"
    if "unexpected end of stream" in problem or "quoted scalar" in context:
        missing = "end of stream" in problem
        return "the closing quote of a text is missing" if missing else f"{problem}: put the text in '...' instead"
    if _lacks_colon(error):
        return "a colon is missing here: a key is written `key: value`, and a list entry begins with `- `"
    if "flow" in context:
        if "${" in text.split("\n")[error.problem_mark.line if error.problem_mark is not None else 0]:
            return 'inside { } or [ ] a reference stands in quotes: "${NAME}"'
        opened = f" (opened in line {error.context_mark.line + 1})" if error.context_mark is not None else ""
        return f"a comma or the closing bracket of {'[' if 'sequence' in context else '{'} is missing{opened}"
    if "block" in context:
        return (
            "this does not fit what stands before it: check the indentation, "
            "and put texts that start with { or [ in quotes"
        )
    return f"is not valid YAML: {problem or context}"


def _lacks_colon(error: MarkedYAMLError) -> bool:
    return "could not find expected ':'" in str(error.problem or "")


def _character(mark: StringMark | None, text: str) -> str:
    if mark is None:
        return ""
    lines = text.split("\n")
    return lines[mark.line][mark.column : mark.column + 1] if mark.line < len(lines) else ""


MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_NODES = 10_000

_TEXT_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
_BRACKET = re.compile(r"[\[\]{}]")
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Document:
    """What a YAML file holds: its tree (None when it is empty), and mistakes that did not keep it from being read."""

    root: Node | None
    problems: tuple[LocatedProblem, ...]


def read_file(path: Path, *, name: str) -> str:
    """The text of a configuration file. Raises InvalidConfiguration when it is missing, too large or no UTF-8."""
    place = Place(name)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        raise _refused(place, f"cannot be read: {reason}") from error
    if len(content) > MAX_BYTES:
        raise _refused(place, f"is larger than {MAX_BYTES:,} bytes, the most that a configuration may have")
    if content.startswith(_UTF16_MARKS):
        raise _refused(Place(name, 1, 1), "is UTF-16: save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        message = f"is not UTF-8 (byte 0x{content[error.start]:02x}): save it as UTF-8"
        raise _refused(Place(name, line, column), message) from error


def parse(text: str, *, name: str) -> Document:
    """The tree of a YAML text; `name` stands for it in places. Raises InvalidConfiguration when it cannot be read."""
    builder = _Builder(name)
    _refuse_deep_brackets(text, name)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            builder.take(event)
    except MarkedYAMLError as error:
        before = error.context_mark if _lacks_colon(error) else None
        place = builder.place(before or error.problem_mark or error.context_mark)
        raise _refused(place, explain(error, text)) from error
    except YAMLError as error:
        line, column, character = _first_control(text)
        message = f"holds a character that YAML does not allow (U+{ord(character):04X})"
        raise _refused(Place(name, line, column), message) from error
    return Document(builder.root, tuple(builder.problems))


def _refuse_deep_brackets(text: str, name: str) -> None:
    """Refuse hundreds of open brackets before the scanner sees them: its look-ahead is quadratic in their number.

    Brackets inside texts are counted too, hence the generous limit; the exact one is the builder's.
    """
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth = depth + 1 if bracket[0] in "[{" else max(depth - 1, 0)
        if depth > MAX_DEPTH * 8:
            line = text.count("\n", 0, bracket.start()) + 1
            raise _refused(Place(name, line, 1), f"is nested more than {MAX_DEPTH} levels deep")


def _refused(place: Place, message: str) -> InvalidConfiguration:
    return InvalidConfiguration([LocatedProblem(place, (), message)])


def _first_control(text: str) -> tuple[int, int, str]:
    for line, content in enumerate(text.split("\n"), 1):
        for column, character in enumerate(content, 1):
            if not (character.isprintable() or character in "\t\r\x85"):
                return line, column, character
    return 1, 1, text[:1] or " "


@dataclass(slots=True)
class _Open:
    """A list or table that is still being read; a table collects keys and values in turn."""

    place: Place
    anchor: str | None
    count_before: int
    table: bool
    nodes: list[Node] = field(default_factory=list)
    height: int = 0


@dataclass(frozen=True, slots=True)
class _Anchored:
    node: Node
    count: int
    height: int


class _Builder:
    """Builds the tree from parse events with a stack of its own, so that no depth of input can exhaust Python's.

    Nodes are counted as they are after aliases: an alias counts all that it stands for.
    """

    def __init__(self, name: str) -> None:
        self.root: Node | None = None
        self.problems: list[LocatedProblem] = []
        self._name = name
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._count = 0
        self._documents = 0

    def place(self, mark: StringMark | None) -> Place:
        return Place(self._name, mark.line + 1, mark.column + 1) if mark is not None else Place(self._name)

    def take(self, event: Event) -> None:
        place = self.place(event.start_mark)
        if isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise _refused(place, "holds a second document (`---`): one file describes one pipeline")
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._check_tag(event, place)
            self._counted(1, place, height=1)
            self._stack.append(_Open(place, event.anchor, self._count - 1, isinstance(event, MappingStartEvent)))
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            self._close(self._stack.pop())
        elif isinstance(event, ScalarEvent):
            self._counted(1, place, height=0)
            self._add(self._scalar(event, place), anchor=event.anchor, count=1, height=0)
        elif isinstance(event, AliasEvent):
            self._alias(str(event.anchor), place)

    def _counted(self, count: int, place: Place, *, height: int) -> None:
        self._count += count
        if self._count > MAX_NODES:
            raise _refused(place, f"holds more than {MAX_NODES:,} values (aliases counted in full)")
        if len(self._stack) + height > MAX_DEPTH:
            raise _refused(place, f"is nested more than {MAX_DEPTH} levels deep")

    def _alias(self, anchor: str, place: Place) -> None:
        if any(opened.anchor == anchor for opened in self._stack):
            raise _refused(place, f"*{anchor} stands inside &{anchor}: an alias cannot hold itself")
        if anchor not in self._anchors:
            message = f"there is no &{anchor} before *{anchor}; a text that starts with * must stand in quotes"
            raise _refused(place, message)
        anchored = self._anchors[anchor]
        self._counted(anchored.count, place, height=anchored.height)
        self._add(anchored.node, anchor=None, count=anchored.count, height=anchored.height)

    def _add(self, node: Node, *, anchor: str | None, count: int, height: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = _Anchored(node, count, height)
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        parent.nodes.append(node)
        parent.height = max(parent.height, height)

    def _close(self, opened: _Open) -> None:
        node = self._table(opened) if opened.table else Items(opened.place, tuple(opened.nodes))
        self._add(node, anchor=opened.anchor, count=self._count - opened.count_before, height=opened.height + 1)

    def _table(self, opened: _Open) -> Table:
        entries: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        for key, node in zip(opened.nodes[::2], opened.nodes[1::2], strict=True):
            if not isinstance(key, Scalar):
                self._problem(key.place, "a key must be a single word, not a list or a mapping")
            elif key.text == "<<" and not key.quoted:
                self._merge(node, merged)
            elif key.text in entries:
                first = entries[key.text].key_place.line
                self._problem(key.place, f"the key {key.text!r} stands here again; it is already in line {first}")
            else:
                entries[key.text] = Entry(key.place, node)
        return Table(opened.place, {**entries, **{name: merged[name] for name in merged if name not in entries}})

    def _merge(self, node: Node, merged: dict[str, Entry]) -> None:
        for table in node.items if isinstance(node, Items) else (node,):
            if isinstance(table, Table):
                merged.update({name: entry for name, entry in table.entries.items() if name not in merged})
            else:
                self._problem(table.place, "`<<` takes a mapping, or a list of mappings")

    def _scalar(self, event: ScalarEvent, place: Place) -> Scalar:
        text = str(event.value)
        self._check_tag(event, place)
        quoted = event.style is not None or event.tag is not None
        return Scalar(place, text if quoted else value_of(text), text, quoted)

    def _check_tag(self, event: ScalarEvent | MappingStartEvent | SequenceStartEvent, place: Place) -> None:
        tag = None if event.tag is None else str(event.tag)
        if tag is not None and not (isinstance(event, ScalarEvent) and tag in _TEXT_TAGS):
            shown = tag.replace("tag:yaml.org,2002:", "!!")
            self._problem(place, f"the tag {shown} is not used here: leave it out")

    def _problem(self, place: Place, message: str) -> None:
        self.problems.append(LocatedProblem(place, (), message))
