"""Bring the text of a YAML file to what a changed description is: only what has changed, and nothing around it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from sightline.config.document import Plain
from sightline.config.overrides import STRUCTURES, TOP_LEVEL
from sightline.config.text_tree import CannotEdit, Part, TextTree, scalar

PlainTable = dict[str, Plain]
Edit = Callable[[Part, Plain, Plain], None]
"""Edits a part that holds one value so that it holds another. Raises CannotEdit."""
_REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_SHORTEST_SECRET = 6
"""Values of variables that long are not written where they come up elsewhere in the file."""
_WIDEST = 100


class Rewriting:
    """Edits one text. `short_field` returns which option of a step a bare value stands for, `environment` holds what
    references had for values when the text was read. With `whole_steps`, a step or source is written anew when anything
    in it differs: for elements whose options stand in another form in the file than they have as plain data.
    """

    def __init__(
        self, text: str, *, environment: Mapping[str, str], short_field: Callable[[str], str | None], whole_steps: bool
    ) -> None:
        self._tree = TextTree(text)
        self._environment = environment
        self._short_field = short_field
        self._whole_steps = whole_steps
        self._changed: list[Part] = []
        self._given_names: Mapping[str, str] = {}
        everywhere = self._references(text)
        self._secrets = {value: one for value, one in everywhere.items() if len(value) >= _SHORTEST_SECRET}

    def text(self, before: PlainTable, after: PlainTable, *, given_names: Mapping[str, str]) -> str:
        """Return the text that holds `after` where it holds `before`, both in the form of the file. `given_names` holds
        the name in the file of each stream. Raises CannotEdit.
        """
        root = self._tree.root
        if root is None or root.kind != "table":
            raise CannotEdit
        self._given_names = given_names
        edits: Mapping[str, Edit] = {"sources": self._sources, "pipeline": self._steps}
        for name in TOP_LEVEL:
            old, new = before.get(name), after.get(name)
            if old == new:
                continue
            own = root.value(name)
            if own is None:
                self._add(root, name, self._rendered(_difference(old, new)), order=TOP_LEVEL)
            elif new is None:
                self._remove(root, {name})
            else:
                self._or_anew(edits.get(name, self._edit), own, old, new)
        self._inline_aliases()
        return self._tree.result()

    def _or_anew(self, edit: Edit, part: Part, before: Plain, after: Plain) -> None:
        """Edit a part, or write it anew as a whole when its parts cannot be edited one by one."""
        if before == after:
            return
        edits, changed = list(self._tree.edits), list(self._changed)
        self._changed.append(part)
        try:
            edit(part, before, after)
        except CannotEdit:
            self._tree.edits[:], self._changed[:] = edits, changed
            self._put(part, self._rendered(after, before, part))
            self._changed.append(part)

    def _edit(self, part: Part, before: Plain, after: Plain) -> None:
        """Edit a value of any kind."""
        if isinstance(before, dict) and isinstance(after, dict) and part.kind == "table":
            self._table(part, before, after, self._edit)
        elif isinstance(before, list) and isinstance(after, list) and part.kind == "items":
            self._items(part, before, after, self._edit)
        else:
            raise CannotEdit

    def _sources(self, part: Part, before: Plain, after: Plain) -> None:
        """Edit the sources. An entry that stands for several streams is replaced by those when one of them changes."""
        if part.kind != "table" or not isinstance(before, dict) or not isinstance(after, dict):
            raise CannotEdit
        old, new = dict(before), dict(after)
        for given in {self._given_names.get(name, name) for name in before}:
            streams = [name for name in before if self._given_names.get(name, name) == given]
            if streams == [given]:
                continue
            kept = all(before[name] == after.get(name) for name in streams)
            for name in streams:
                del old[name]
                if kept:
                    del new[name]
            if not kept:
                old[given] = {}
        self._table(part, old, new, self._source)

    def _source(self, part: Part, before: Plain, after: Plain) -> None:
        if self._whole_steps:
            raise CannotEdit
        if part.kind == "table" and isinstance(before, dict) and isinstance(after, dict) and part.value("uri") is None:
            named = next((name.text for name, _ in part.entries() if name.text not in before), "uri")
            before, after = _with_key(before, "uri", named), _with_key(after, "uri", named)  # `images: folder`
        self._options(part, before, after, short="uri")

    def _options(self, part: Part, before: Plain, after: Plain, *, short: str | None) -> None:
        """Edit options that may stand in their short form, as a bare value."""
        if part.kind != "scalar" or part.is_null or short is None:
            return self._edit(part, before, after)
        if not isinstance(before, dict) or not isinstance(after, dict) or short not in after:
            raise CannotEdit
        if list(after) == [short]:
            return self._put(part, self._rendered(after[short], before.get(short), part))
        shown = [
            f"{scalar(name)}: {self._rendered(value, before.get(name), part if name == short else None)}"
            for name, value in sorted(after.items(), key=lambda one: one[0] != short)
        ]
        return self._put(part, "{" + ", ".join(shown) + "}")

    def _steps(self, part: Part, before: Plain, after: Plain) -> None:
        if part.kind != "items" or not isinstance(before, list) or not isinstance(after, list):
            raise CannotEdit
        self._items(part, before, after, self._step)

    def _step(self, part: Part, before: Plain, after: Plain) -> None:
        """Edit a step: `{name: options}`, or its name alone."""
        assert isinstance(before, dict)
        assert isinstance(after, dict)
        ((name, old),), ((_, new),) = before.items(), after.items()
        if self._whole_steps and name not in STRUCTURES:
            raise CannotEdit
        if part.kind == "scalar":
            self._put(part, f"{scalar(name)}: {self._rendered(new)}")
        elif part.kind != "table" or (own := part.value(name)) is None:
            raise CannotEdit
        elif name in STRUCTURES and own.kind == "table" and isinstance(old, dict) and isinstance(new, dict):
            self._table(own, old, new, self._steps, rendered=self._rendered_steps)
        else:
            short = self._short_field(name)

            def edit(own: Part, before: Plain, after: Plain) -> None:
                self._options(own, before, after, short=short)

            self._or_anew(edit, own, old, new)

    def _table(
        self,
        part: Part,
        before: PlainTable,
        after: PlainTable,
        edit: Edit,
        rendered: Callable[[Plain], str] | None = None,
    ) -> None:
        gone = {name for name in before if name not in after}
        if gone:
            self._remove(part, gone)
        for name, value in after.items():
            own = part.value(name)
            if own is not None:
                self._or_anew(edit, own, before.get(name), value)
            elif name not in before or before[name] != value:
                self._add(part, name, (rendered or self._rendered)(value), gone=gone)

    def _items(self, part: Part, before: Sequence[Plain], after: Sequence[Plain], edit: Edit) -> None:
        if len(part.nodes) != len(before) or not after:
            raise CannotEdit
        last: Part | None = None
        pairs = list(aligned(before, after))
        gone = {old for old, new in pairs if old is not None and new is None}
        if part.is_flow and gone:
            self._remove_from_flow([(one.start, one.end) for one in part.nodes], gone)
        for old, new in pairs:
            if old is not None and new is not None:
                self._or_anew(edit, part.nodes[old], before[old], after[new])
            elif old is not None and not part.is_flow:
                self._remove_item(part.nodes[old])
            elif new is not None:
                self._insert_item(part, last, self._item(part, before, after[new]))
            if old is not None and not (part.is_flow and new is None):
                last = part.nodes[old]

    def _item(self, part: Part, before: Sequence[Plain], value: Plain) -> str:
        """Return the text of a new item: what already stands in the list is written as it stands there."""
        if value in before:
            own = part.nodes[before.index(value)]
            return self._tree.source(own) if own.anchor is None and own.kind != "alias" else self._raw(own)
        if _identity(value) is None or not isinstance(value, dict):
            return self._rendered(value)
        shown = self._rendered_step(value)
        ((name, options),) = value.items()
        if len(shown) > _WIDEST and isinstance(options, dict) and name not in STRUCTURES and not part.is_flow:
            indent = self._tree.newline + " " * (self._tree.column(self._dash(part.nodes[0])) + 4)
            lines = [f"{scalar(option)}: {self._rendered(one)}" for option, one in options.items()]
            shown = f"{scalar(name)}:" + "".join(indent + line for line in lines)
        return shown

    def _dash(self, item: Part) -> int:
        """Return the place of the dash in front of an item of a block."""
        start = self._tree.line_start(item.start)
        if self._tree.text[start : item.start].strip() != "-":
            raise CannotEdit
        return self._tree.text.index("-", start)

    def _insert_item(self, part: Part, before: Part | None, text: str) -> None:
        """Insert an item behind another one, or in front of all."""
        tree = self._tree
        if part.is_flow:
            at = part.nodes[0].start if before is None else before.end
            tree.replace(at, at, f"{text}, " if before is None else f", {text}")
            return
        indent = " " * tree.column(self._dash(part.nodes[0]))
        if before is None:
            at = tree.line_start(part.nodes[0].start)
            tree.replace(at, at, f"{indent}- {text}{tree.newline}")
        else:
            self._insert_line(before.end, f"{indent}- {text}")

    def _insert_line(self, behind: int, line: str) -> None:
        tree = self._tree
        at = tree.lines_of(behind, behind)[1]
        is_last = not tree.text[:at].endswith("\n")
        tree.replace(at, at, tree.newline + line if is_last else line + tree.newline)

    def _remove_item(self, item: Part) -> None:
        self._dash(item)
        self._tree.replace(*self._tree.lines_of(item.start, item.end), "")

    def _remove(self, part: Part, names: Collection[str]) -> None:
        """Remove entries of a mapping, of which some must be left."""
        entries = list(part.entries())
        gone = {number for number, (key, _) in enumerate(entries) if key.text in names}
        if len(gone) < len(names):  # merged in from elsewhere
            raise CannotEdit
        if part.is_flow:
            return self._remove_from_flow([(key.start, max(key.end, value.end)) for key, value in entries], gone)
        if len(gone) == len(entries):
            raise CannotEdit
        for number in gone:
            key, value = entries[number]
            if not self._tree.is_first_on_its_line(key.start):  # behind the dash of an item
                raise CannotEdit
            self._tree.replace(*self._tree.lines_of(key.start, max(key.end, value.end)), "")
        return None

    def _remove_from_flow(self, spans: Sequence[tuple[int, int]], gone: Collection[int]) -> None:
        kept = [number for number in range(len(spans)) if number not in gone]
        if not kept:
            raise CannotEdit
        for number in gone:
            start, end = spans[number]
            if number < kept[-1]:
                end = spans[number + 1][0]
            else:
                start = spans[number - 1][1]
            self._tree.replace(start, end, "")

    def _add(self, part: Part, name: str, value: str, *, order: Sequence[str] = (), gone: Collection[str] = ()) -> None:
        """Add an entry to a mapping, behind the others that stay, or where it stands in an order of keys."""
        entries = [one for one in part.entries() if one[0].text not in gone]
        text = f"{scalar(name)}: {value}"
        if part.is_flow:
            at = max(entries[-1][0].end, entries[-1][1].end) if entries else part.start + 1
            self._tree.replace(at, at, f", {text}" if entries else text)
            return
        behind = [one for one in entries if one[0].text in order[: order.index(name)]] if name in order else entries
        if behind:
            indent = " " * self._tree.column(entries[0][0].start)
            self._insert_line(max(one.end for one in behind[-1]), indent + text)
        else:
            at = self._tree.line_start(entries[0][0].start)
            self._tree.replace(at, at, text + self._tree.newline)

    def _rendered_steps(self, steps: Plain) -> str:
        assert isinstance(steps, list)
        return "[" + ", ".join(map(self._rendered_step, steps)) + "]"

    def _rendered_step(self, step: Plain) -> str:
        """Return a step in one line."""
        assert isinstance(step, dict)
        ((name, options),) = step.items()
        if name in STRUCTURES and isinstance(options, dict):
            branches = [f"{scalar(branch)}: {self._rendered_steps(steps)}" for branch, steps in options.items()]
            return f"{scalar(name)}: {{{', '.join(branches)}}}"
        return f"{scalar(name)}: {self._rendered(options)}" if options else scalar(name)

    def _put(self, part: Part, text: str) -> None:
        """Put a text in place of a value."""
        start, end = part.start, part.end
        is_block = part.kind in ("table", "items") and not part.is_flow
        if part.key is not None and (is_block or part.start == part.end):
            start, text = self._tree.behind_colon(part.key), f" {text}"
        self._tree.replace(start, max(start, end), text)

    def _rendered(self, value: Plain, before: Plain = None, part: Part | None = None) -> str:
        """Return a value in one line; what has not changed in it keeps its references and its notation."""
        part = part.target if part is not None and part.kind == "alias" else part
        if part is not None and not part.is_null and value == before:
            return self._raw(part)
        if isinstance(value, dict):
            old = before if isinstance(before, dict) else {}
            own = part.value if part is not None and part.kind == "table" else lambda _: None
            shown = [f"{scalar(name)}: {self._rendered(one, old.get(name), own(name))}" for name, one in value.items()]
            return "{" + ", ".join(shown) + "}"
        if isinstance(value, list):
            olds = before if isinstance(before, list) else []
            owns = part.nodes if part is not None and part.kind == "items" and len(part.nodes) == len(olds) else []
            paired = list(zip_longest(value, olds, owns))[: len(value)]
            return "[" + ", ".join(self._rendered(one, old, own) for one, old, own in paired) + "]"
        if isinstance(value, str):
            return self._string(value, part)
        return scalar(value)

    def _string(self, value: str, part: Part | None) -> str:
        """Return a text; values of variables become references again."""
        own = part if part is not None and part.kind == "scalar" else None
        references = {**self._secrets}
        if own is not None and _REFERENCE.fullmatch(own.text) and value in (found := self._references(own.text)):
            references = found
        style = None if own is None else own.style
        if not references:
            return scalar(value.replace("$", "$$"), style=style)
        pattern = "|".join(re.escape(one) for one in sorted(references, key=len, reverse=True))
        parts = re.split(f"({pattern})", value)
        return scalar("".join(references.get(one, one.replace("$", "$$")) for one in parts), style=style)

    def _references(self, text: str) -> dict[str, str]:
        """Return the references in a text by the values that they had."""
        found = {match[0]: self._environment.get(match["name"], "") for match in _REFERENCE.finditer(text)}
        return {value: reference for reference, value in found.items() if value}

    def _raw(self, part: Part) -> str:
        """Return what stands in a part, in one line and without anchors."""
        if part.kind == "alias":
            assert part.target is not None
            return self._raw(part.target)
        if part.kind == "table":
            return "{" + ", ".join(f"{self._raw(key)}: {self._raw(value)}" for key, value in part.entries()) + "}"
        if part.kind == "items":
            return "[" + ", ".join(map(self._raw, part.nodes)) + "]"
        if part.is_null:
            return "null"
        if part.style in ("'", '"') and "\n" not in self._tree.source(part) and part.anchor is None:
            return self._tree.source(part)
        if part.style is None:
            return part.text if not re.search(r"[\[\]{},$]|\n", part.text) else scalar(part.text, style='"')
        return scalar(part.text, style='"')

    def _inline_aliases(self) -> None:
        """Write out the aliases of what has changed: they mean what stood there before."""
        assert self._tree.root is not None
        for alias in list(self._tree.root.walk()):
            target = alias.target
            if target is None or self._tree.is_replaced(alias):
                continue
            if any(one in self._changed or self._tree.is_replaced(one) for one in target.walk()):
                self._tree.replace(alias.start, alias.end, self._raw(target))


def aligned(before: Sequence[Plain], after: Sequence[Plain]) -> Iterator[tuple[int | None, int | None]]:
    """Yield which item of a list became which, in order; None for items that came or went."""
    matched = SequenceMatcher(None, [_text(one) for one in before], [_text(one) for one in after], autojunk=False)
    for kind, start, end, new_start, new_end in matched.get_opcodes():
        if kind == "equal":
            yield from zip(range(start, end), range(new_start, new_end), strict=True)
        else:
            yield from _paired(before, after, range(start, end), range(new_start, new_end))


def _paired(
    before: Sequence[Plain], after: Sequence[Plain], old: range, new: range
) -> Iterator[tuple[int | None, int | None]]:
    """Pair items that are the same step with other options, or that stand in the same place."""
    names = [_identity(before[one]) for one in old], [_identity(after[one]) for one in new]
    if None in (*names[0], *names[1]):
        if len(old) == len(new):
            yield from zip(old, new, strict=True)
            return
        names = [f"old {one}" for one in old], [f"new {one}" for one in new]
    for kind, start, end, new_start, new_end in SequenceMatcher(None, *names, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(old[start:end], new[new_start:new_end], strict=True)
        else:
            yield from ((one, None) for one in old[start:end])
            yield from ((None, one) for one in new[new_start:new_end])


def _identity(item: Plain) -> str | None:
    """Return what a step is known by; None for what is no step."""
    if not isinstance(item, dict) or len(item) != 1:
        return None
    ((name, options),) = item.items()
    return f"{name} {options.get('id', '')}" if isinstance(options, dict) else None


def _with_key(options: PlainTable, key: str, other: str) -> PlainTable:
    return {other if name == key else name: value for name, value in options.items()}


def _text(item: Plain) -> str:
    return json.dumps(item, sort_keys=True)


def _difference(before: Plain, after: Plain) -> Plain:
    """Return what a section has to hold that is not in the file yet: options that are not as they are without it."""
    if isinstance(before, dict) and isinstance(after, dict):
        return {name: value for name, value in after.items() if name not in before or before[name] != value}
    return after
