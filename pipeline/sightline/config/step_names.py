"""Steps of a tree by name or id, before they are elements."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.config.nodes import Items, Node, Scalar, Table
from sightline.config.problems import Key

STRUCTURES = ("tee", "parallel")


def name_of(step: Node) -> str:
    """The name of the element that a step is; empty when it is no step."""
    if isinstance(step, Scalar):
        return str(step.value)
    if isinstance(step, Table) and len(step.entries) == 1:
        return next(iter(step.entries))
    return ""


def options_of(step: Node) -> Node:
    """What stands below a step's name; an empty table for a step that is only a name."""
    if isinstance(step, Table) and len(step.entries) == 1:
        return next(iter(step.entries.values())).node
    return Table(step.place)


def find_steps(steps: Items, word: str) -> list[Key]:
    """Where the steps of that id are, at any depth; without one, those of that name."""
    named = list(_numbered(steps))
    by_id = [where for where, _, identities in named if word in identities]
    return by_id or [where for where, name, _ in named if name == word]


def step_names(steps: Items) -> list[str]:
    """The names and ids that `find_steps` knows."""
    names = {word for _, name, identities in _numbered(steps) for word in (name, *identities)}
    return sorted(names)


def _numbered(steps: Items) -> Iterator[tuple[Key, str, tuple[str, ...]]]:
    """Each step below with where it is, its name, and its id: the one given, else its name and number."""
    counts: dict[str, int] = {}
    for where, step in _walk(steps, ()):
        name = name_of(step)
        counts[name] = counts.get(name, 0) + 1
        options = options_of(step)
        given = options.entries["id"].node if isinstance(options, Table) and "id" in options.entries else None
        identity = str(given.value) if isinstance(given, Scalar) else f"{name}-{counts[name]}"
        yield where, name, () if name in STRUCTURES else (identity,)


def _walk(steps: Items, where: Key) -> Iterator[tuple[Key, Node]]:
    for number, step in enumerate(steps.items):
        yield (*where, number), step
        name, options = name_of(step), options_of(step)
        if name in STRUCTURES and isinstance(options, Table):
            for branch, entry in options.entries.items():
                if isinstance(entry.node, Items):
                    yield from _walk(entry.node, (*where, number, name, branch))
