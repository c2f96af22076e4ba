"""Serving: what viewers of events cost a pipeline that reports 25 of them a second.

    python -m benchmarks.server [--seconds 30] [--viewers 100] [--write]

A pipeline is served in a process of its own. Its CPU time is taken from the system: without viewers, with them, and
without them again; the cost is the difference to the mean of before and after. The viewers are real clients in another
process. `distinct` viewers each have another filter, so that they share no work. `--write` writes
`docs/benchmarks/serving.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.pipelines.document import machine

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "serving.md"
TOKEN = "0123456789abcdef0123456789abcdef"
PER_SECOND = 25
WAYS = {"sse": "server-sent events", "socket": "WebSocket", "distinct": "server-sent events, each with another filter"}


@dataclass(frozen=True)
class Served:
    """A pipeline in another process."""

    process: subprocess.Popen[str]
    port: int

    def cpu_seconds(self) -> float:
        """CPU time that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def load(self, seconds: float) -> float:
        """Percent of one core that the process uses in the next seconds."""
        begun, before = time.monotonic(), self.cpu_seconds()
        time.sleep(seconds)
        return 100 * (self.cpu_seconds() - before) / (time.monotonic() - begun)


@contextmanager
def served() -> Iterator[Served]:
    """Serve the pipeline while the block is open."""
    command = [sys.executable, "-m", "benchmarks.server.pipeline", str(PER_SECOND), TOKEN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Served(process, int(process.stdout.readline()))
        process.communicate("")


def measured(pipeline: Served, way: str, *, viewers: int, seconds: float) -> str:
    """A row of the table."""
    before = pipeline.load(seconds)
    command = [sys.executable, "-m", "benchmarks.server.viewers", str(pipeline.port)]
    command += ["--viewers", str(viewers), "--token", TOKEN, "--way", way]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as clients:
        assert clients.stdout is not None
        assert clients.stdout.readline() == "ready\n"
        time.sleep(1)
        during = pipeline.load(seconds)
        got = json.loads(clients.communicate("")[0])
    time.sleep(1)
    after = pipeline.load(seconds)
    idle = (before + after) / 2
    cells = [WAYS[way], str(viewers), f"{idle:.1f} %", f"{during:.1f} %", f"**{during - idle:.1f} %**"]
    cells += [f"{got['least']} to {got['most']}", str(got["lost"])]
    return f"| {' | '.join(cells)} |"


def table(*, viewers: int, seconds: float) -> Iterator[str]:
    """The table, row by row."""
    yield "| viewers by | number | CPU without | with | cost | records of each viewer | lost |"
    yield "|---|---|---|---|---|---|---|"
    with served() as pipeline:
        time.sleep(3)
        for way in WAYS:
            yield measured(pipeline, way, viewers=viewers, seconds=seconds)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--viewers", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="write the page")
    asked = parser.parse_args()
    where = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}, load {os.getloadavg()[0]:.1f}"
    print(f"{where}\n")
    rows = []
    for row in table(viewers=asked.viewers, seconds=asked.seconds):
        print(row, flush=True)
        rows.append(row)
    if asked.write:
        PAGE.write_text(_page(rows, where=where, seconds=asked.seconds), encoding="utf-8")


def _page(rows: list[str], *, where: str, seconds: float) -> str:
    return f"""# Serving

What viewers of [events](../guide/events.md) cost, in percent of one core. {where}.

A pipeline with one small stream reports {PER_SECOND} events a second and is served by `listen`. CPU is that of its
whole process, over {seconds:.0f} seconds each: without viewers (the mean of before and after), and with them. Viewers
are real clients in another process.

{chr(10).join(rows)}

`python -m benchmarks.server --write` measures again.
"""


if __name__ == "__main__":
    main()
