"""Try changes, and remember what came of each: `mutate.json` for programs, `mutate.txt` for people."""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Self

from tools.mutate.changes import Change, changes
from tools.mutate.reach import Reach
from tools.mutate.tree import Tree

CAUGHT, SLOW, SURVIVED, UNREACHED = "caught", "caught by time", "survived", "not run by a test"
MISSED = {SURVIVED, UNREACHED}
_EXTRA_SECONDS = 30.0
_TIMES = 4
_NO_TESTS = 5


@dataclass(frozen=True, slots=True)
class Trial:
    """A change and what came of it. `before` and `after` are the changed line; `module` is a digest of its module."""

    path: str
    line: int
    kind: str
    before: str
    after: str
    outcome: str
    tests: int
    seconds: float
    module: str
    place: str

    def text(self) -> str:
        """For people."""
        head = f"{self.path}:{self.line}  {self.kind}, {self.outcome} ({self.tests} tests)"
        return f"{head}\n  - {self.before}\n  + {self.after}"


class Results:
    """All trials of the modules as they are now."""

    def __init__(self, folder: Path, trials: Iterable[Trial]) -> None:
        self._folder = folder
        self._trials = {(trial.path, trial.place): trial for trial in trials}

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What earlier runs left in a folder; nothing when there was none."""
        path = folder / "mutate.json"
        return cls(folder, (Trial(**each) for each in json.loads(path.read_text())) if path.exists() else ())

    @property
    def list_path(self) -> Path:
        """The list for people."""
        return self._folder / "mutate.txt"

    def forget(self, digests: dict[str, str]) -> None:
        """Drop trials of modules that changed or went; `digests` are those of all modules."""
        self._trials = {key: trial for key, trial in self._trials.items() if digests.get(trial.path) == trial.module}

    def add(self, trial: Trial) -> None:
        """Remember a trial and write both files."""
        self._trials[trial.path, trial.place] = trial
        self._folder.mkdir(parents=True, exist_ok=True)
        trials = sorted(self._trials.values(), key=lambda trial: (trial.path, trial.line, trial.place))
        (self._folder / "mutate.json").write_text(json.dumps([asdict(each) for each in trials], indent=1) + "\n")
        self.list_path.write_text("".join(f"{each.text()}\n" for each in self.missed()))

    def missed(self) -> list[Trial]:
        """Changes that survived, then those that no test runs."""
        found = [trial for trial in self._trials.values() if trial.outcome in MISSED]
        return sorted(found, key=lambda trial: (trial.outcome != SURVIVED, trial.path, trial.line, trial.place))

    def has(self, path: str, change: Change) -> bool:
        """Whether a change was tried."""
        return (path, place(change)) in self._trials

    def was_missed(self, path: str, change: Change) -> bool:
        """Whether a change was tried and no test noticed it."""
        trial = self._trials.get((path, place(change)))
        return trial is not None and trial.outcome in MISSED


class Sample:
    """The changes to some modules in an order that depends on the seed: one of each module, then another of each."""

    def __init__(self, tree: Tree, *, paths: Sequence[str], seed: int) -> None:
        self.digests = {path: digest(tree.source(path)) for path in tree.modules()}
        wanted = [path for path in tree.modules() if not paths or any(_is_within(path, of) for of in paths)]
        self._changes = {path: changes(tree.source(path)) for path in wanted}
        self._seed = seed

    def __len__(self) -> int:
        return sum(map(len, self._changes.values()))

    def __iter__(self) -> Iterator[tuple[str, Change]]:
        paths = sorted(self._changes)
        Random(self._seed).shuffle(paths)
        for turn in zip_longest(*([(path, change) for change in self._order(path)] for path in paths)):
            yield from filter(None, turn)

    def _order(self, path: str) -> Iterator[Change]:
        """The changes to a module: one of each kind, then another of each."""
        by_kind: dict[str, list[Change]] = defaultdict(list)
        for change in Random(f"{self._seed} {path}").sample(self._changes[path], len(self._changes[path])):
            by_kind[change.kind].append(change)
        for turn in zip_longest(*by_kind.values()):
            yield from filter(None, turn)


class Trials:
    """Tries changes in a tree with the tests that reach them, for at most `seconds` of tests each."""

    def __init__(self, tree: Tree, reach: Reach, *, seconds: float) -> None:
        self._tree = tree
        self._reach = reach
        self._seconds = seconds

    def run(self, sample: Iterable[tuple[str, Change]], *, into: Results, minutes: float) -> Iterator[Trial]:
        """Try changes one after another until the time or the sample is used up; each is remembered."""
        until = time.monotonic() + minutes * 60
        for path, change in sample:
            if time.monotonic() >= until:
                return
            if change.compiles(self._tree.source(path)):
                trial = self.one(path, change)
                into.add(trial)
                yield trial

    def one(self, path: str, change: Change) -> Trial:
        """Apply a change, run its tests until one fails, and undo the change."""
        source = self._tree.source(path)
        line, before, after = change.lines(source)
        tests = self._reach.tests(path, change, seconds=self._seconds)
        began = time.monotonic()
        outcome = self._outcome(path, change, tests) if tests else UNREACHED
        seconds = round(time.monotonic() - began, 1)
        return Trial(
            path, line, change.kind, before, after, outcome, len(tests), seconds, digest(source), place(change)
        )

    def _outcome(self, path: str, change: Change, tests: Sequence[str]) -> str:
        limit = _EXTRA_SECONDS + _TIMES * self._reach.duration(tests)
        with self._tree.changed(path, change):
            code = self._tree.pytest(["-x", *tests], seconds=limit)
        if code == _NO_TESTS:
            raise RuntimeError(f"None of the tests was found: {' '.join(tests)}")
        return SLOW if code is None else CAUGHT if code else SURVIVED


def place(change: Change) -> str:
    """Names a change within its module."""
    return f"{change.start}-{change.end} {change.text}"


def digest(source: bytes) -> str:
    """The same for the same content."""
    return hashlib.sha256(source).hexdigest()[:12]


def _is_within(path: str, of: str) -> bool:
    return Path(path).is_relative_to(of.removeprefix("./"))
