"""`python -m tools.fuzz`: mutants for so many minutes; those that fail are kept, and can be tried again."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from tools.fuzz.hunt import Finding, hunt, replay
from tools.fuzz.targets.names import TARGETS

_SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


@click.command()
@click.option("--minutes", default=10.0, show_default=True, type=click.FloatRange(min=0), help="For all targets.")
@click.option("--seed", type=int, help="First seed; one of the time of day when not given.")
@click.option("--only", multiple=True, type=click.Choice(list(TARGETS)), help="Only this target; may be repeated.")
@click.option("--keep", default="out/fuzz", show_default=True, type=click.Path(path_type=Path), help="For failures.")
@click.option("--replay", "again", is_flag=True, help="Try what was kept once more, and nothing else.")
@click.option("--shared", default=_SHARED, type=click.Path(path_type=Path), help="Folder with more originals.")
def main(minutes: float, seed: int | None, only: tuple[str, ...], keep: Path, again: bool, shared: Path) -> None:
    """Give Sightline wrong input made at random: video files, RTSP servers, configurations, model cards and models."""
    import time

    originals = shared if shared.is_dir() else None
    first = int(time.time()) * 1_000 if seed is None else seed
    names = only or tuple(TARGETS)
    failed = False
    with tempfile.TemporaryDirectory(prefix="fuzz-") as work:
        if again:
            sys.exit(_replay(keep, names, work=Path(work), shared=originals))
        for name in names:
            tally = hunt(
                name, seed=first, work=Path(work), kept=keep, shared=originals, seconds=minutes * 60 / len(names)
            )
            failed = failed or bool(tally.findings)
            print(tally.text(), flush=True)
            for finding in tally.findings:
                print(finding.text(), flush=True)
    sys.exit(1 if failed else 0)


def _replay(keep: Path, names: tuple[str, ...], *, work: Path, shared: Path | None) -> int:
    failed = 0
    for path in sorted(keep.glob("*-*")):
        target, _, rest = path.name.partition("-")
        if target in names and path.suffix != ".txt":
            what = replay(target, path.absolute(), work=work, shared=shared)
            print(Finding(target, rest.partition(".")[0], path, what or "is taken as it should be").text(), flush=True)
            failed += bool(what)
    return 1 if failed else 0


if __name__ == "__main__":
    main()
