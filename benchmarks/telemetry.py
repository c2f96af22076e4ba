"""What traces cost: CPU a frame of a run without telemetry, beside runs that send it to a collector.

    python -m benchmarks.telemetry [--frames 8000] [--rounds 7]

Each run reads and decodes frames of 640x360, tracks recorded objects, counts them at a line and writes JSON lines. The
collector is a process of its own that acknowledges everything, so that its time does not count. Runs of all ways take
turns. The least CPU time a frame of all rounds is what others on the machine disturbed least; the ratio is that of the
least times, beside the median of the ratios of each round.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sightline import Pipeline

_COLLECTOR = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Accept(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_request(self, code="-", size="-"):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Accept)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
WAYS: Mapping[str, Mapping[str, Any] | None] = {
    "without": None,
    "default: 1 %, 10 a second": {},
    "every frame": {"sample": 1.0, "max_rate": 1000},
}


@contextmanager
def collecting() -> Iterator[str]:
    """Give the address of a collector in a process of its own."""
    command = [sys.executable, "-c", _COLLECTOR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def cpu_ms(folder: Path, *, frames: int, telemetry: Mapping[str, Any] | None) -> tuple[float, int]:
    """CPU milliseconds a frame of a run, and how many frames it traced."""
    report = Pipeline(
        sources={"gate": {"pattern": "counter", "size": [640, 360], "frames": frames}},
        steps=[
            {"replay": {"path": str(folder / "found.txt"), "label": "car"}},
            "track",
            {"lines": {"gate_in": {"from": [0, 0.5], "to": [1, 0.5]}}},
            {"jsonl": "out/{stream}.jsonl"},
        ],
        telemetry=telemetry,
        outputs=folder,
        overwrite=True,
    ).run()
    traced = 0 if report.telemetry is None else report.telemetry.traces
    return report.cpu_seconds / report.frames * 1e3, traced


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    found: dict[str, list[tuple[float, int]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name, collecting() as url:
        folder = Path(name)
        boxes = [
            f"{frame + 1},-1,{20 + 100 * one},{(frame + 40 * one) % 300},40,40,0.9,-1,-1,-1"
            for frame in range(given.frames)
            for one in range(5)
        ]
        (folder / "found.txt").write_text("\n".join(boxes))
        cpu_ms(folder, frames=given.frames, telemetry={"endpoint": url})
        for _ in range(given.rounds):
            for way, options in WAYS.items():
                telemetry = None if options is None else {"endpoint": url, **options}
                found[way].append(cpu_ms(folder, frames=given.frames, telemetry=telemetry))
    least_without = min(cpu for cpu, _ in found["without"])
    print(f"{'telemetry':28} {'ms a frame':>10} {'ratio':>7} {'median':>7} {'traced':>7}")
    for way, runs in found.items():
        least = min(cpu for cpu, _ in runs)
        median = statistics.median(cpu / base for (cpu, _), (base, _) in zip(runs, found["without"], strict=True))
        print(f"{way:28} {least:10.4f} {least / least_without:7.3f} {median:7.3f} {runs[0][1]:7}")


if __name__ == "__main__":
    main()
