"""One contestant in a process of its own: `python -m benchmarks.pipelines.child MODULE:FUNCTION JOB`.

It prints one line of JSON: its outcome, or `{"skipped": reason}` when a part that it needs is not installed.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib import import_module

from benchmarks.pipelines.job import Job, PartMissing


def main(where: str, job: str) -> None:
    """Run the contestant and prints what it says."""
    module, _, function = where.partition(":")
    try:
        outcome = getattr(import_module(f"benchmarks.pipelines.{module}"), function)(Job.from_json(job))
    except PartMissing as missing:
        print(json.dumps({"skipped": str(missing)}))
        return
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main(*sys.argv[1:])
