"""Where in a text a problem stands, for editors that mark it there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from sightline.config.document import InvalidConfiguration, LocatedProblem, Node, Place, Scalar, walk

_TOKEN = re.compile(
    r"""
    "(?:[^"\\\n]|\\.)*"?              # a text in double quotes
    | '(?:[^'\n]|'')*'?               # one in single quotes
    | [^\s,\[\]{}]+?(?=:(?:\s|$))     # a key, without its colon
    | [^\s,\[\]{}][^,\[\]{}\n]*?(?=\s*(?:[,\]}\n]|\s\#|$))
    """,
    re.VERBOSE,
)


def located(problems: Iterable[LocatedProblem], root: Node) -> InvalidConfiguration:
    """Problems of a description with their places in the tree that it was read from: those without one get that of the
    value at their key path, or of what is nearest above it.
    """
    return InvalidConfiguration(
        problem if problem.place.line else replace(problem, place=_place(problem, root)) for problem in problems
    )


def _place(problem: LocatedProblem, root: Node) -> Place:
    path, node, key_place = list(walk(root, problem.key))[-1]
    return node.place if len(path) == len(problem.key) or isinstance(node, Scalar) else key_place


def length_at(text: str, place: Place) -> int:
    """How many characters a place in a text is about: those of the key or value that begins there, at least one."""
    lines = text.split("\n")
    if not 0 < place.line <= len(lines):
        return 1
    found = _TOKEN.match(lines[place.line - 1], max(place.column - 1, 0))
    return max(len(found[0]), 1) if found else 1
