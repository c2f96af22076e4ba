"""How soon a change by the API is seen, and taken back: `python -m benchmarks.steering`.

Four cameras (a clip, in real time) are tracked and counted. A zone is edited again and again by the API: the time until
the pipeline counts what the edited zone sees, and the frames that were lost meanwhile. Then a step is added that raises
on its first frame: the time until the pipeline is as it was before.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sightline import Pipeline
from sightline.server import listen
from sightline.server.policy import Policy

TOKEN = "0123456789abcdef"  # of the server of this benchmark, on the loopback
CLIP = Path(__file__).parents[1] / "sample_videos" / "gate.mp4"
API = "/api/v1/pipelines/street"


def broken(batch: Any) -> Any:
    """A step that fails."""
    raise ValueError(f"{len(batch)} frames")


def ask(port: int, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    """Ask the API; the status, and what was answered."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{API}{path}", body, method=method)
    for name, value in {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **headers}.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def edited(port: int, count: int) -> Iterator[float]:
    """Edit a zone under new names; the seconds until each is counted."""
    for number in range(count):
        begun = time.monotonic()
        zone = json.dumps({"polygon": [[0.1 + number / 2000, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]}).encode()
        ask(port, f"/rules/zones-1/z{number}", "PUT", zone)
        while not json.loads(ask(port, f"/rules/zones-1/z{number}")[1])["counts"]:
            time.sleep(0.005)
        yield time.monotonic() - begun
        ask(port, f"/rules/zones-1/{f'z{number - 1}' if number else 'plaza'}", "DELETE")


def reverted(port: int) -> float:
    """Add a step that fails; the seconds until the answer says that the change was taken back."""
    text = ask(port, "/configuration")[1] + "- apply: {function: 'benchmarks.steering:broken'}\n"
    begun = time.monotonic()
    status, said = ask(port, "/configuration", "PUT", text.encode(), Content_Type="application/yaml", If_Match="*")
    if status != 409:
        raise RuntimeError(f"{status}: {said}")
    return time.monotonic() - begun


def lines(edits: int) -> Iterator[str]:
    """What was measured, line by line."""
    source = {"uri": str(CLIP), "realtime": True, "loop": True}
    zone = {"polygon": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]}
    replay = {"replay": {"path": str(CLIP.with_suffix(".mot.txt")), "format": "mot", "label": "car"}}
    steps: list[Any] = [replay, "track", {"zones": {"plaza": zone}}, "draw"]
    pipeline = Pipeline(name="street", sources={f"cam{number}": source for number in range(4)}, steps=steps)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN, policy=Policy(allow_code=True)) as listener, pipeline:
        while not all(one.processed for one in pipeline.status()):
            time.sleep(0.05)
        seconds = sorted(edited(listener.port, edits))
        taken_back = reverted(listener.port)
        pipeline.stop()
        report = pipeline.wait()
    lost = sum(count for one in report.streams for reason, count in one.dropped.items() if reason != "reverted")
    yield "| what | measured | aim |"
    yield "|---|---|---|"
    yield f"| {edits} edits of a zone, each counted after: median | {statistics.median(seconds) * 1e3:.0f} ms | |"
    yield f"| the slowest | {seconds[-1] * 1e3:.0f} ms | 500 ms |"
    yield f"| a change that fails is taken back after | {taken_back * 1e3:.0f} ms | 5000 ms |"
    yield f"| frames lost, of {report.frames} | {lost} | 0 |"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=100)
    for line in lines(parser.parse_args().edits):
        print(line, flush=True)


if __name__ == "__main__":
    main()
