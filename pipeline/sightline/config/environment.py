"""`${NAME}`, `${NAME:-default}` and `$$` in the texts of a configuration.

What comes from the environment is often a password: it is put into the tree, and never into a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sightline.config.document import Entry, Items, Key, LocatedProblem, Node, Scalar, Table, value_of
from sightline.graph.wording import suggest

_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<inside>[^}]*)(?P<close>\}?))")
_INSIDE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_SHORT = 4


class Environment:
    """The variables a configuration may use, and those it did use."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._used: dict[str, str] = {}
        self.problems: list[LocatedProblem] = []

    def fill(self, node: Node, *, key: Key = ()) -> Node:
        """The tree with all references replaced; what cannot be replaced is left, and noted in `problems`."""
        if isinstance(node, Items):
            return replace(node, items=tuple(self.fill(item, key=(*key, i)) for i, item in enumerate(node.items)))
        if isinstance(node, Table):
            entries = {
                name: Entry(entry.key_place, self.fill(entry.node, key=(*key, name)))
                for name, entry in node.entries.items()
            }
            return replace(node, entries=entries)
        return self._fill_scalar(node, key) if "$" in node.text else node

    def hide(self, text: str, *, certain: Iterable[str] = ()) -> str:
        """The text with the values of used variables replaced by `${NAME}`.

        Values of less than four characters are replaced as whole words only, unless their variables are `certain` to
        stand in the value that the text is about.
        """
        for name, value in sorted(self._used.items(), key=lambda item: -len(item[1])):
            for shown in {value, repr(value)[1:-1], value.rstrip("/"), value.strip()} - {""}:
                whole_word = r"(?<!\w){}(?!\w)" if len(shown) < _SHORT and name not in certain else "{}"
                text = re.sub(whole_word.format(re.escape(shown)), lambda _, name=name: f"${{{name}}}", text)  # type: ignore[misc]
        return text

    def _fill_scalar(self, node: Scalar, key: Key) -> Scalar:
        names: list[str] = []

        def value(match: re.Match[str]) -> str:
            if match["dollar"]:
                return "$"
            found = self._value(match, node, key)
            if found is None:
                return match[0]
            names.extend(found[1])
            return found[0]

        text = _REFERENCE.sub(value, node.text)
        typed = text if node.quoted else value_of(text)
        return replace(node, value=typed, text=text, variables=tuple(names))

    def _value(self, match: re.Match[str], node: Scalar, key: Key) -> tuple[str, Iterable[str]] | None:
        inside = _INSIDE.fullmatch(match["inside"])
        if not match["close"] or inside is None or "${" in match["inside"]:
            self._problem(node, key, "a reference is written ${NAME} or ${NAME:-default}, and a dollar sign itself $$")
            return None
        name, default = inside["name"], inside["default"]
        value = self._variables.get(name)
        if default is not None and not value:
            return default, ()
        if value is None:
            near = suggest(name, self._variables)
            message = f"the environment variable {name} is not set{near}"
            self._problem(node, key, message if near else f"{message}: set it, or write ${{{name}:-default}}")
            return None
        self._used[name] = value
        return value, (name,)

    def _problem(self, node: Scalar, key: Key, message: str) -> None:
        self.problems.append(LocatedProblem(node.place, key, message))
