"""The imports of the framework and its plugins, as a graph of modules and as a drawing of folders in layers."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {"sightline": ROOT / "pipeline", "sightline_plugins": ROOT / "plugins"}
Graph = Mapping[str, frozenset[str]]


def module_of(file: Path, root: Path) -> str:
    """Return the dotted name of a Python file below a source root."""
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> Mapping[str, Path]:
    """Return every module of both packages with its file."""
    return {
        module_of(file, root): file for name, root in SOURCES.items() for file in sorted((root / name).rglob("*.py"))
    }


@cache
def imported(file: Path) -> tuple[tuple[str, bool], ...]:
    """Return the names that a file imports, dotted, and whether a function does so when it runs.

    Imports for type checkers alone are left out.
    """
    found = []
    for node, lazy in _statements(ast.parse(file.read_text()), lazy=False):
        if isinstance(node, ast.Import):
            found += [(alias.name, lazy) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(f"{node.module}.{alias.name}", lazy) for alias in node.names]
    return tuple(found)


def _statements(block: ast.AST, *, lazy: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield the statements in a module, class, function or branch, and whether they are in a function. Expressions hold
    no imports and are not entered.
    """
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        for child in getattr(block, name, ()):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.stmt):
                yield child, lazy
            yield from _statements(child, lazy=lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def module_graph(*, lazy: bool) -> Graph:
    """Return for each module the modules that it imports, with those that define names which a package passes on."""
    known = modules()
    passed_on = {
        f"{name}.{target.rpartition('.')[2]}": target
        for name, file in known.items()
        if file.name == "__init__.py"
        for target, in_function in imported(file)
        if not in_function
    }
    graph = {}
    for name, file in known.items():
        found = set()
        for target, in_function in imported(file):
            if in_function and not lazy:
                continue
            for origin in {target, passed_on.get(target, target)}:
                while origin and origin not in known:
                    origin = origin.rpartition(".")[0]
                found.add(origin)
        graph[name] = frozenset(found - {"", name})
    return graph


def folder_of(module: str) -> str:
    """Return the folder that a module belongs to: its package and the first folder or module below it."""
    return ".".join(module.split(".")[:2])


def folder_graph() -> Graph:
    """Return for each folder the folders that anything in it imports."""
    graph: dict[str, set[str]] = {}
    for module, targets in module_graph(lazy=True).items():
        others = {folder_of(target) for target in targets} - {folder_of(module)}
        graph.setdefault(folder_of(module), set()).update(others)
    return {name: frozenset(others) for name, others in graph.items()}


def layers(graph: Graph) -> list[list[str]]:
    """Return the nodes in layers, lowest first: each imports only from layers below. Raises CycleError for a circle."""
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    found = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        found.append(ready)
        sorter.done(*ready)
    return found


def drawing() -> str:
    """Return the layers of both packages as text, highest first, and what each folder imports as a table."""
    graph = folder_graph()
    parts = []
    for package in reversed(SOURCES):
        inside = {
            name: frozenset(other for other in others if other.startswith(f"{package}."))
            for name, others in graph.items()
            if name.startswith(f"{package}.")
        }
        found = layers(inside)
        rows = [f"  {number:2}  {'  '.join(map(_short, names))}" for number, names in enumerate(found, start=1)]
        parts.append("\n".join([package, *reversed(rows)]))
    rows = []
    for name in sorted(name for name in graph if "." in name):
        others = sorted(other for other in graph[name] if other.startswith(f"{package_of(name)}."))
        rows.append(f"| `{name}` | {', '.join(f'`{_short(other)}`' for other in others)} |")
    table = "\n".join(["| folder | imports from the same package |", "|---|---|", *rows])
    return "```text\n" + "\n\n".join(parts) + "\n```\n\n" + table


def package_of(name: str) -> str:
    """Return the top-level package of a dotted name."""
    return name.partition(".")[0]


def _short(name: str) -> str:
    return name.removeprefix("sightline_plugins.").removeprefix("sightline.")
