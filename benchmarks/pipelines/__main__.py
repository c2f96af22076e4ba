"""`python -m benchmarks.pipelines`: Sightline beside the best loop by hand, the usual one, and ready-made ways."""

from __future__ import annotations

import argparse
import os
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.pipelines.contestants import CONTESTANTS, OURS, OURS_BFLOAT16
from benchmarks.pipelines.document import write
from benchmarks.pipelines.job import Job
from benchmarks.pipelines.rounds import ROOT, measure
from benchmarks.pipelines.tables import breakdown, markdown, verdicts

DATA = Path(os.environ.get("SIGHTLINE_SHARED_DATA", ROOT.parent / "shared" / "data"))
PAGE = ROOT / "docs" / "benchmarks" / "pipelines.md"


def options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipelines", description=__doc__)
    parser.add_argument("--clip", default="car-detection.mp4", help="a file, or the name of one of the shared clips")
    parser.add_argument("--streams", default="1,4,8", help="numbers of streams")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--confidence", type=float, default=0.4)
    parser.add_argument("--only", default="*", help="globs of contestants, with | between; ours always takes part")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    return parser.parse_args()


def main() -> None:
    """Measure, prints, and writes the page when asked to."""
    asked = options()
    clip = Path(asked.clip) if Path(asked.clip).exists() else DATA / "videos" / asked.clip
    models = DATA / "models"
    chosen = [
        one
        for one in CONTESTANTS
        if one in (OURS, OURS_BFLOAT16) or any(fnmatch(one.name, glob) for glob in asked.only.split("|"))
    ]
    tables = []
    for streams in map(int, asked.streams.split(",")):
        job = Job(clip, models / "FastestDet.onnx", models / "coco80.names", Path(), streams, 1, asked.confidence)
        print(f"{streams} streams of {clip.name}")
        tables.append(measure(chosen, job=job, rounds=asked.rounds))
        print("\n".join([*markdown(tables[-1]), *verdicts(tables[-1]), *breakdown(tables[-1])]), flush=True)
    if asked.write:
        write(PAGE, tables, job=job, rounds=asked.rounds)


if __name__ == "__main__":
    main()
