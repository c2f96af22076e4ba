"""`python -m tools.mutate`: change modules for so many minutes, and list the changes that no test notices."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path

import click

from tools.mutate.reach import measured
from tools.mutate.tree import Tree
from tools.mutate.trials import MISSED, Results, Sample, Trials

_ROOT = Path(__file__).resolve().parents[2]
_SUITES = ("tests/unit", "tests/conformance", "tests/parity")


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--minutes", default=10.0, show_default=True, type=click.FloatRange(min=0), help="For trying changes.")
@click.option("--count", type=click.IntRange(min=1), help="Try at most so many changes.")
@click.option("--seed", default=0, show_default=True, help="Which changes come first.")
@click.option("--suites", multiple=True, default=_SUITES, show_default=True, help="Tests; may be repeated.")
@click.option("--seconds", default=30.0, show_default=True, help="Tests of one change take at most so long.")
@click.option("--again", is_flag=True, help="Try only changes that no test noticed before.")
@click.option("--keep", default="out", show_default=True, type=click.Path(path_type=Path), help="For mutate.json.")
def main(
    paths: tuple[str, ...],
    minutes: float,
    count: int | None,
    seed: int,
    suites: tuple[str, ...],
    seconds: float,
    again: bool,
    keep: Path,
) -> None:
    """Change modules of the wheel in a copy of the tree, one small change at a time, and list what no test notices.

    PATHS are modules or folders; all of the wheel when none is given. A run goes on where the last one ended.
    """
    results, outcomes = Results.read(keep), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="mutate-") as work:
        tree = Tree(_ROOT, work=Path(work))
        sample = Sample(tree, paths=paths, seed=seed)
        results.forget(sample.digests)
        print(f"{len(sample)} places; the tests run once to see which of them run which line", flush=True)
        reach = measured(tree, suites=suites, kept=keep / "mutate")
        for test in reach.failed:
            print(f"not used, because it fails without a change: {test}", flush=True)
        chosen = (
            (path, change)
            for path, change in sample
            if (results.was_missed(path, change) if again else not results.has(path, change))
        )
        for trial in Trials(tree, reach, seconds=seconds).run(islice(chosen, count), into=results, minutes=minutes):
            outcomes[trial.outcome] += 1
            if trial.outcome in MISSED:
                print(trial.text(), flush=True)
    sums = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
    print(f"{outcomes.total()} changes from seed {seed}: {sums}")
    print(f"{len(results.missed())} that no test noticed are in {results.list_path}")


if __name__ == "__main__":
    main()
