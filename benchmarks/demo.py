"""How long it takes from `sightline demo` to boxes that move in a browser, and what the first screen costs.

    python -m benchmarks.demo [--rounds 3] [--clone]

A round begins with the command in an empty folder, opens the address that it prints in a Chromium without a GPU, and
ends when the canvas of the first camera, on which boxes are drawn, differs from what it was a quarter of a second
before. The first start on a machine compiles the models; the cache (`SIGHTLINE_CACHE`) is emptied for the round
that is called cold. `--clone` measures `make demo` from a fresh clone of this repository, with the packages at hand.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Request

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"the dashboard: (\S+)")
_PATIENCE_SECONDS = 300.0
_DRAWN = """() => {
  const canvas = document.querySelector('main canvas');
  if (!canvas?.width) return null;
  const small = Object.assign(document.createElement('canvas'), {width: 32, height: 18});
  small.getContext('2d').drawImage(canvas, 0, 0, 32, 18);
  return small.toDataURL();
}"""


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds from the command to its link, and to images that move; from opening the page to its first paint, in
    milliseconds; bytes that the page transferred without video.
    """

    link_seconds: float
    moving_seconds: float
    paint_ms: float
    page_bytes: int


def measure(command: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> Round:
    """Start the demo, watch it in a browser until images move, and end it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        began = time.monotonic()
        with subprocess.Popen(
            command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            assert process.stderr is not None
            try:
                link = next(found[1] for line in process.stderr if (found := _LINK.search(line)))
                told = time.monotonic()
                page = browser.new_page()
                ended: list[Request] = []
                page.on("requestfinished", lambda request: ended.append(request))
                page.goto(link)
                before, deadline = None, began + _PATIENCE_SECONDS
                while time.monotonic() < deadline:
                    now = page.evaluate(_DRAWN)
                    if None not in (now, before) and now != before:
                        break
                    before = now
                    page.wait_for_timeout(250)
                moving = time.monotonic()
                paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
                sizes = [one.sizes()["responseBodySize"] for one in ended if "image.jpg" not in one.url]
            finally:
                os.killpg(process.pid, signal.SIGINT)
                process.stderr.read()
        browser.close()
    return Round(told - began, moving - began, paint, sum(sizes))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clone", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        environment = {name: value for name, value in os.environ.items() if name != "SIGHTLINE_TOKEN"}
        environment["SIGHTLINE_CACHE"] = str(Path(scratch) / "cache")
        if chosen.clone:
            clone = Path(scratch) / "clone"
            subprocess.run(("git", "clone", "--quiet", str(ROOT), str(clone)), check=True)
            show("make demo in a fresh clone", [measure(("make", "demo"), folder=clone, environment=environment)])
            return
        command = (sys.executable, "-m", "sightline.cli.main", "demo", "--no-open", "--port", "0")
        rounds = []
        for number in range(chosen.rounds + 1):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            rounds.append(measure(command, folder=folder, environment=environment))
        show("cold: models are compiled", rounds[:1])
        show(f"warm, median of {chosen.rounds}", rounds[1:])


def show(title: str, rounds: Sequence[Round]) -> None:
    """Print a row of the table in docs/benchmarks/dashboard.md."""
    columns = (
        [one.link_seconds for one in rounds],
        [one.moving_seconds for one in rounds],
        [one.paint_ms / 1000 for one in rounds],
    )
    texts = [f"{statistics.median(column):.2f}" for column in columns]
    print(f"| {title} | {' | '.join(texts)} | {max(one.page_bytes for one in rounds) / 1000:.0f} |")


if __name__ == "__main__":
    main()
