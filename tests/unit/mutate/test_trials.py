"""The mutation tool on a small tree of its own: which tests it runs, and what it makes of them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tools.mutate.reach import Reach
from tools.mutate.tree import Tree
from tools.mutate.trials import CAUGHT, SLOW, SURVIVED, UNREACHED, Results, Sample, Trial, Trials

MODULE = "pipeline/sightline/numbers.py"
USER = "pipeline/sightline/user.py"
TEST = "tests/unit/test_numbers.py"
LARGER = f"{TEST}::test_larger"
EQUAL = f"{TEST}::test_equal"
FILES = {
    MODULE: "def larger(a, b):\n    return a > b\n\ndef down(n):\n    while n > 0:\n        n = n - 1\n    return n\n",
    USER: "from sightline.numbers import larger\nLIMIT = 3\n",
    "pipeline/sightline/__init__.py": "",
    "plugins/sightline_plugins/__init__.py": "",
    TEST: "from sightline.numbers import down, larger\n"
    "def test_larger():\n    assert larger(2, 1)\n"
    "def test_equal():\n    assert not larger(1, 1)\n"
    "def test_down():\n    assert down(3) == 0\n",
    ".gitignore": "out/\n",
    "out/big.bin": "not copied",
}
RAN: Mapping[str, Mapping[int, list[str]]] = {MODULE: {2: [f"{LARGER}[first]", EQUAL], 5: [f"{TEST}::test_down"]}}
SECONDS = {LARGER: 0.1, EQUAL: 5.0, f"{TEST}::test_down": 0.0}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


@pytest.fixture
def tree(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A copy whose tests need no plugin of those that are installed: they take longer to load than the tests."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return Tree(checkout, work=tmp_path / "work")


def reach(tree: Tree) -> Reach:
    return Reach(tree, lambda path: RAN.get(path, {}), passed=SECONDS, failed=())


def trial_of(tree: Tree, after: str, *, ran: Reach | None = None, path: str = MODULE) -> Trial:
    change = next(
        change for _, change in Sample(tree, paths=[path], seed=0) if after in change.lines(tree.source(path))
    )
    return Trials(tree, ran or reach(tree), seconds=30).one(path, change)


def test_a_change_that_a_test_notices_is_caught(tree: Tree) -> None:
    trial = trial_of(tree, "return a >= b")

    assert (trial.outcome, trial.line, trial.before, trial.tests) == (CAUGHT, 2, "return a > b", 2)


def test_a_change_that_no_test_notices_survives(tree: Tree) -> None:
    blind = Reach(tree, lambda path: RAN.get(path, {}), passed={LARGER: 0.1}, failed=())

    assert trial_of(tree, "return a >= b", ran=blind).outcome == SURVIVED


def test_a_change_on_a_line_that_no_test_runs_is_told_apart(tree: Tree) -> None:
    assert trial_of(tree, "n = n + 1").outcome == UNREACHED


def test_a_loop_without_end_is_caught_by_its_time(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.mutate.trials._EXTRA_SECONDS", 3.0)
    ran = Reach(tree, lambda _: {6: [f"{TEST}::test_down"]}, passed=SECONDS, failed=())

    assert trial_of(tree, "n = n + 1", ran=ran).outcome == SLOW


def test_the_checkout_stays_as_it_is_and_so_does_the_copy_afterwards(tree: Tree, checkout: Path) -> None:
    copy = tree.root / MODULE
    before = copy.stat().st_mtime_ns

    trial_of(tree, "return a >= b")

    assert (checkout / MODULE).read_text() == copy.read_text() == FILES[MODULE]
    assert copy.stat().st_mtime_ns == before


def test_ignored_files_are_not_copied(tree: Tree) -> None:
    assert not (tree.root / "out").exists()


def test_what_runs_at_import_is_tried_with_all_tests_of_the_module(tree: Tree) -> None:
    ran = Reach(tree, lambda path: {1: [LARGER]} if path == USER else {}, passed=SECONDS, failed=())

    assert trial_of(tree, "LIMIT = 4", ran=ran, path=USER).tests == 1


def test_a_module_without_functions_is_tried_with_tests_of_the_modules_that_import_it(tree: Tree) -> None:
    (tree.root / USER).write_text("from sightline.limits import LIMIT\n")
    limits = tree.root / "pipeline/sightline/limits.py"
    limits.write_text("LIMIT = 3\n")
    ran = Reach(tree, lambda path: {1: [LARGER]} if path == USER else {}, passed=SECONDS, failed=())

    assert trial_of(tree, "LIMIT = 4", ran=ran, path="pipeline/sightline/limits.py").tests == 1


def test_quick_tests_come_first_and_their_time_is_limited(tree: Tree) -> None:
    change = next(
        change
        for _, change in Sample(tree, paths=[MODULE], seed=0)
        if change.first_line == 2 and change.kind == "return"
    )

    assert reach(tree).tests(MODULE, change, seconds=30) == [LARGER, EQUAL]
    assert reach(tree).tests(MODULE, change, seconds=1) == [LARGER]


def test_a_sample_is_the_same_for_a_seed_and_takes_modules_in_turn(tree: Tree) -> None:
    first, again = list(Sample(tree, paths=(), seed=7)), list(Sample(tree, paths=(), seed=7))

    assert first == again
    assert {path for path, _ in first[:2]} == {MODULE, USER}


def test_results_are_kept_until_their_module_changes(tree: Tree, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    sample = Sample(tree, paths=[USER], seed=0)
    path, change = next(iter(sample))
    results = Results.read(folder)
    results.add(trial_of(tree, "LIMIT = 4", path=USER))

    later = Results.read(folder)
    later.forget(sample.digests)
    assert later.has(path, change)
    assert later.was_missed(path, change)
    assert "+ LIMIT = 4" in later.list_path.read_text()

    later.forget({**sample.digests, USER: "another"})
    assert not later.has(path, change)
