"""Which tests run which line of the wheel: tests run once with coverage; the result is kept until code changes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tools.mutate.changes import Change
from tools.mutate.recorder import without_parameters
from tools.mutate.tree import Tree

_IMPORT = re.compile(r"^\s*from (?:sightline|sightline_plugins)\.?([\w.]*) import (.+)", re.MULTILINE)
Ran = Callable[[str], Mapping[int, Collection[str]]]
_KEPT = 3
"""So many results stay in the folder: those of other suites, and the last ones before a change."""


class Reach:
    """The tests that can notice a change.

    `ran` gives the tests that ran each line of a module, with or without their parameters. `passed` maps each test to
    the seconds that it takes; `failed` fail without a change and are not used.
    """

    def __init__(self, tree: Tree, ran: Ran, *, passed: Mapping[str, float], failed: Sequence[str]) -> None:
        self.failed = failed
        self._passed = passed
        self._tree = tree
        self._ran = ran
        self._by_line: dict[str, Mapping[int, set[str]]] = {}

    def tests(self, path: str, change: Change, *, seconds: float) -> list[str]:
        """Tests that run a line of the change: those of the same part first, then the quick ones, until their time is
        used up. At least one where there is one.

        What is outside of functions runs when the module is imported: for that, all tests that run a line of the module
        count, or of the modules that import it.
        """
        if change.inside:
            found = self._of_lines(path, range(change.first_line, change.last_line + 1))
        else:
            found = self._of_module(path) or {
                test for importer in self._imports.get(path, []) for test in self._of_module(importer)
            }
        part = set(Path(path).with_suffix("").parts[2:])
        ordered = sorted(found, key=lambda test: (-len(part & _words(test)), self._passed[test], test))
        chosen: list[str] = []
        for test in ordered:
            if not chosen or self.duration([*chosen, test]) <= seconds:
                chosen.append(test)
        return chosen

    def duration(self, tests: Sequence[str]) -> float:
        """Seconds that tests take together when all pass."""
        return sum(self._passed[test] for test in tests)

    def _of_lines(self, path: str, lines: range) -> set[str]:
        by_line = self._lines(path)
        return {test for line in lines for test in by_line.get(line, ())}

    def _of_module(self, path: str) -> set[str]:
        return set().union(*self._lines(path).values())

    def _lines(self, path: str) -> Mapping[int, set[str]]:
        """The passed tests that ran each line of a module."""
        if path not in self._by_line:
            self._by_line[path] = {
                line: {without_parameters(test) for test in tests} & self._passed.keys()
                for line, tests in self._ran(path).items()
            }
        return self._by_line[path]

    @cached_property
    def _imports(self) -> Mapping[str, list[str]]:
        """The modules of the wheel that import each one."""
        modules = self._tree.modules()
        by_name = {".".join(Path(path).with_suffix("").parts[2:]): path for path in modules}
        importers: dict[str, list[str]] = {}
        for path in modules:
            text = (self._tree.root / path).read_text()
            for package, names in re.findall(
                r"^\s*from (?:sightline|sightline_plugins)\.?([\w.]*) import (.+)", text, re.M
            ):
                for name in (package, *(f"{package}.{word}".lstrip(".") for word in re.findall(r"\w+", names))):
                    if name in by_name:
                        importers.setdefault(by_name[name], []).append(path)
        return importers


def measured(tree: Tree, *, suites: Sequence[str], kept: Path) -> Reach:
    """Run the tests once in the copy with coverage, or take the result of an earlier run of the same code and tests.

    Raises RuntimeError when they do not run to their end.
    """
    folder = kept / tree.fingerprint(suites)
    results, data = folder / "tests.json", folder / "coverage"
    if not results.exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ["-p", "tools.mutate.recorder", "--cov", "--cov-context=test", "--cov-report="]
        environment = {"COVERAGE_FILE": str(data.absolute()), "MUTATE_TESTS": str(results.absolute())}
        tree.pytest([*options, *suites], environment=environment)
        if not results.exists():
            raise RuntimeError(f"The tests did not run to their end: {' '.join(suites)}")
    for old in sorted(kept.iterdir(), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(old)
    return Reach(tree, _reader(data), **json.loads(results.read_text()))


def _reader(data: Path) -> Ran:
    from coverage import CoverageData  # part of the development tools only

    coverage = CoverageData(str(data))
    coverage.read()

    def ran(path: str) -> Mapping[int, Collection[str]]:
        # The copy has another folder in every run. A context is a test and its phase: "test_file.py::test|run".
        name = next((name for name in coverage.measured_files() if name.endswith(f"/{path}")), path)
        contexts: Mapping[int, list[str]] = coverage.contexts_by_lineno(name)
        return {line: [context.rpartition("|")[0] for context in found] for line, found in contexts.items()}

    return ran


def _words(test: str) -> set[str]:
    """Names of the folders and the file of a test: `track`, `kalman` of `tests/unit/track/test_kalman.py::...`."""
    return {part.removeprefix("test_") for part in Path(test.partition("::")[0]).with_suffix("").parts[1:]}
