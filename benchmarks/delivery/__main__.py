"""Delivery: records a second through the outbox beside the plain client in a loop, and what it costs a pipeline.

    python -m benchmarks.delivery [--records 20000] [--rounds 3] [--only mqtt ...]
    python -m benchmarks.delivery --stores [--records 20000] [--only sqlite]
    python -m benchmarks.delivery --pipeline [--data ../shared/data] [--frames 2400] [--rounds 5]
    python -m benchmarks.delivery --write

Servers are the real ones, on this machine, except Kafka: librdkafka's mock cluster. Contestants take turns. `--stores`
compares the sinks `sqlite` and `parquet` with plain loops that write the same rows; `--pipeline` the CPU time a frame
of a pipeline (FastestDet, tracking, JSON lines, four files) without and with a step that delivers every frame;
`--write` measures all three and writes `docs/benchmarks/delivery.md`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.delivery import page
from benchmarks.delivery.contestants import DESTINATIONS
from benchmarks.delivery.pipeline import in_pipeline
from benchmarks.delivery.stores import OBJECTS, ROWS_AT_ONCE, STORES, stores
from benchmarks.delivery.throughput import throughput
from benchmarks.graph_passes import DATA
from benchmarks.pipelines.document import machine


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delivery", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=2_400, help="of all streams together, in a pipeline")
    parser.add_argument("--only", nargs="+", choices=[*DESTINATIONS, *STORES])
    parser.add_argument("--stores", action="store_true", help="measure the sinks that write files")
    parser.add_argument("--pipeline", action="store_true", help="measure what delivery costs a pipeline")
    parser.add_argument("--write", action="store_true", help="measure everything, and write the page")
    asked = parser.parse_args()
    only = asked.only or [*DESTINATIONS, *STORES]
    destinations, files = ([name for name in only if name in known] for known in (DESTINATIONS, STORES))
    print(f"{datetime.now(UTC):%Y-%m-%d}, {machine()}, load {os.getloadavg()[0]:.1f}, {asked.rounds} rounds in turn\n")
    sections: dict[str, Iterable[str]] = {
        "throughput": throughput(destinations, count=asked.records, rounds=asked.rounds),
        "stores": stores(files, count=asked.records, rounds=asked.rounds),
        "pipeline": in_pipeline(destinations, data=asked.data, frames=asked.frames, rounds=asked.rounds),
    }
    wanted = [name for name in ("stores", "pipeline") if getattr(asked, name)] or ["throughput"]
    tables = {name: list(_shown(sections[name])) for name in (sections if asked.write else wanted)}
    if asked.write:
        measured = {"rounds": asked.rounds, "records": asked.records, "frames": asked.frames}
        page.write(
            throughput=tables["throughput"],
            stores=tables["stores"],
            pipeline=tables["pipeline"],
            objects=OBJECTS,
            at_once=ROWS_AT_ONCE,
            **measured,
        )


def _shown(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        print(line, flush=True)
        yield line
    print()


if __name__ == "__main__":
    main()
