"""Does memory grow? `sightline run` on cameras for an hour, sampled from outside, in four ways at once.

    python -m benchmarks.memory [--hours 1] [--only reconnecting]

Cameras (`sightline camera`, a process of its own for each run) send three streams over UDP: without a break, or gone
for a second every 19 seconds. Each of the two is recorded in segments, or not. The pipeline detects, tracks, counts
and writes JSON lines. What is measured is what an operator sees: the resident set of an ordinary `sightline run`, with
the allocator as it comes, once a minute. The first ten minutes are for warming up; slopes are those of Theil and Sen.
Samples go to `out/memory/NAME.csv`; it ends with 1 when a slope is 1 MB an hour or more.
`--only` takes one of the four ways; it can be given more than once.
"""

from __future__ import annotations

import argparse
import csv
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path

from sightline_plugins.commands.soak.samples import slope

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "out" / "memory"
CLIPS = {"gate": "gate.mp4", "street": "street.mp4", "entrance": "entrance.mp4"}
WAYS = {
    "unbroken": (False, False),
    "unbroken, recorded": (False, True),
    "reconnecting": (True, False),
    "reconnecting, recorded": (True, True),
}
"""Whether the cameras go away every 19 seconds, and whether the streams are recorded."""
FAULT = {"steps": [{"at": 18, "kill": True, "lasts": 1}], "repeat": "19s"}
WARM_UP_HOURS, LATE_HOURS = 1 / 6, 2 / 3
ALLOWED_MB_AN_HOUR = 1.0
SECONDS = 60.0
_MB = 1e6
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a process from outside: megabytes that are resident, and numbers of threads and of open files."""

    hours: float
    memory_mb: float
    threads: int
    files: int


@dataclass(slots=True)
class Soak:
    """One run under way, with its cameras."""

    name: str
    process: subprocess.Popen[bytes]
    folder: Path
    samples: list[Sample] = field(default_factory=list)

    def sample(self, hours: float) -> None:
        """Take a sample. Raises RuntimeError when the run has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(
                f"{self.name}: ended with {self.process.returncode}: {(self.folder / 'log').read_text()}"
            )
        about = Path(f"/proc/{self.process.pid}")
        resident = int((about / "statm").read_text().split()[1]) * _PAGE_BYTES / _MB
        counts = (sum(1 for _ in (about / kind).iterdir()) for kind in ("task", "fd"))
        self.samples.append(Sample(hours, resident, *counts))

    def row(self) -> tuple[str, float]:
        """Return the line of the table, and the slope of memory in MB an hour."""
        begin = min(WARM_UP_HOURS, self.samples[-1].hours / 2)
        judged = [sample for sample in self.samples if sample.hours >= begin]
        hours = [sample.hours for sample in judged]
        grows = slope(hours, [sample.memory_mb for sample in judged])
        threads, files = (slope(hours, [getattr(one, what) for one in judged]) for what in ("threads", "files"))
        report = json.loads((self.folder / "report.json").read_text())
        reconnects = sum(stream["reconnects"] for stream in report["streams"].values())
        late = [sample for sample in self.samples if sample.hours >= self.samples[-1].hours - LATE_HOURS]
        grows_late = slope([one.hours for one in late], [one.memory_mb for one in late])
        first, warm, last = (f"{one.memory_mb:.1f}" for one in (self.samples[0], judged[0], judged[-1]))
        cells = (self.name, reconnects, first, warm, last, f"{grows:+.1f}", f"{grows_late:+.1f}")
        return f"| {' | '.join(map(str, cells))} | {threads:+.1f} | {files:+.1f} |", grows

    def write(self) -> None:
        """Write the samples as CSV."""
        SAMPLES.mkdir(parents=True, exist_ok=True)
        with (SAMPLES / f"{self.name.replace(', ', '-')}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(one.name for one in fields(Sample))
            rows.writerows(astuple(sample) for sample in self.samples)


@contextmanager
def cameras(folder: Path, *, breaks: bool) -> Iterator[dict[str, str]]:
    """Show the clips as cameras while the block is open; yields their addresses by name."""
    script = folder / "script.yaml"
    script.write_text(json.dumps(FAULT))
    clips = [f"{name}={ROOT / 'sample_videos' / clip}" for name, clip in CLIPS.items()]
    command = [program(), "camera", *clips, "--port", "0", "--transport", "udp", "--fps", "10"]
    command += ["--script", str(script)] if breaks else []
    with (
        (folder / "camera.log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().split() for _ in CLIPS]
            urls = [next(word for word in line if word.startswith("rtsp://")) for line in lines]
            yield dict(zip(CLIPS, urls, strict=True))
        finally:
            process.terminate()


@contextmanager
def running(name: str, folder: Path) -> Iterator[Soak]:
    """Run the pipeline in one of the ways while the block is open, and stop it as an orchestrator does."""
    breaks, recorded = WAYS[name]
    record = [{"record": {"path": "{stream}/{time}.mp4", "segment": "60s", "keep": {"count": 3}}}] if recorded else []
    with cameras(folder, breaks=breaks) as urls:
        steps = [
            {"detect": {"model": str(ROOT / "models" / "street.onnx")}},
            "track",
            {"lines": {"middle": {"from": [0.0, 0.5], "to": [1.0, 0.5]}}},
            *record,
            {"jsonl": {"path": "{stream}.jsonl"}},
        ]
        sources = {one: {"uri": url, "transport": "udp", "max_fps": 5} for one, url in urls.items()}
        (folder / "run.yaml").write_text(json.dumps({"device": "cpu", "sources": sources, "pipeline": steps}))
        command = [program(), "run", "run.yaml", "-q", "--report", "report.json"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=folder, stderr=log)
        try:
            yield Soak(name, process, folder)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def program() -> str:
    """Return the path of the command that is installed beside this Python."""
    return str(Path(sys.executable).parent / "sightline")


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--only", choices=WAYS, action="append", help="this way of running, not all four")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        soaks = soak(Path(root), ways=asked.only or list(WAYS), hours=asked.hours)
        rows = [one.row() for one in soaks]
    names = (
        *("run", "reconnects", "MB, first minute", "MB, after 10 minutes", "MB, end"),
        *("MB an hour, from 10 minutes", "MB an hour, last 40 minutes", "threads an hour", "files an hour"),
    )
    table = "\n".join([f"| {' | '.join(names)} |", "|---" * len(names) + "|", *(row for row, _ in rows)])
    print(table)
    return int(any(grows >= ALLOWED_MB_AN_HOUR for _, grows in rows))


def soak(root: Path, *, ways: Sequence[str], hours: float) -> list[Soak]:
    """Run these ways at once for that long, with a sample a minute. A line goes to standard error for every minute."""
    with ExitStack() as stack:
        soaks = []
        for number, name in enumerate(ways):
            (folder := root / str(number)).mkdir()
            soaks.append(stack.enter_context(running(name, folder)))
        begin = time.monotonic()
        while (now := time.monotonic() - begin) < hours * 3600:
            time.sleep(min(SECONDS, hours * 3600 - now))
            for one in soaks:
                one.sample((time.monotonic() - begin) / 3600)
                one.write()
            print(" ".join(f"{one.samples[-1].memory_mb:.1f}" for one in soaks), file=sys.stderr, flush=True)
    return soaks


if __name__ == "__main__":
    sys.exit(main())
