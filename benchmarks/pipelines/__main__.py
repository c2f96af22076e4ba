"""`python -m benchmarks.pipelines`: Sightline beside the best loop by hand, the usual one, and ready-made ways."""

from __future__ import annotations

import argparse
from fnmatch import fnmatch

from benchmarks.pipelines.contestants import CONTESTANTS, OURS, OURS_BFLOAT16
from benchmarks.pipelines.document import write
from benchmarks.pipelines.files import add_file_options, job_for
from benchmarks.pipelines.rounds import ROOT, measure
from benchmarks.pipelines.tables import breakdown, markdown, verdicts

PAGE = ROOT / "docs" / "benchmarks" / "pipelines.md"


def options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipelines", description=__doc__)
    add_file_options(parser)
    parser.add_argument("--streams", default="1,4,8", help="numbers of streams")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--confidence", type=float, default=0.4)
    parser.add_argument("--only", default="*", help="globs of contestants, with | between; ours always takes part")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    return parser.parse_args()


def main() -> None:
    """Measure, prints, and writes the page when asked to."""
    asked = options()
    chosen = [
        one
        for one in CONTESTANTS
        if one in (OURS, OURS_BFLOAT16) or any(fnmatch(one.name, glob) for glob in asked.only.split("|"))
    ]
    tables = []
    for streams in map(int, asked.streams.split(",")):
        job = job_for(asked, streams=streams)
        print(f"{streams} streams of {job.clip.name}")
        tables.append(measure(chosen, job=job, rounds=asked.rounds))
        print("\n".join([*markdown(tables[-1]), *verdicts(tables[-1]), *breakdown(tables[-1])]), flush=True)
    if asked.write:
        write(PAGE, tables, job=job, rounds=asked.rounds)


if __name__ == "__main__":
    main()
