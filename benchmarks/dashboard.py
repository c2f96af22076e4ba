"""How late live video is on the screen of the dashboard, whether boxes are those of the image, and what viewers cost.

    python -m benchmarks.dashboard [--seconds 20] [--write]

A camera (a pipeline of its own in a process of its own: the street clip, encoded as H.264 and sent by RTSP) paints the
time of day into each image as black and white cells. The pipeline that is measured reads the cells of each frame and
makes a box whose place says which image it is. A Chromium without a GPU shows the player of the dashboard; a script in
the page reads the cells and the place of the box from the canvas with every frame of the screen. So latency runs from
the moment at which the camera has the image, through its encoder, RTSP, decoding, the pipeline, the WebSocket and the
browser's decoder, to the canvas. Costs are the CPU time of the served process with viewers that take everything and
draw nothing, less that without: one untouched stream of 1280x720 at 25 frames a second. `--write` puts the table into
docs/benchmarks/dashboard.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from benchmarks.pipelines.document import machine
from benchmarks.publishing import write_clip
from sightline import Pipeline
from sightline.graph import Element, Operator, Site
from sightline.media import Batch, Objects, Origin
from sightline.server import listen

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks" / "dashboard.md"
TOKEN = "0123456789abcdef0123456789abcdef"
SIZE_WH, LARGE_WH = (640, 360), (1280, 720)
CELLS, CELL_HEIGHT = 32, 16
BAND = (176, 200)
PLACES, PLACE_MS = 36, 20
ROUNDS = 3
MODES = {"webcodecs": "", "mse": "delete window.VideoDecoder;"}
PLAY = """async ([width, height]) => {
  const { Player, OVERLAYS } = await import("/dashboard/parts/player.js");
  const { html, render } = await import("/dashboard/lib.js");
  const box = Object.assign(document.createElement("div"), { id: "stage" });
  Object.assign(box.style, { position: "fixed", inset: 0, width: `${width}px`, height: `${height}px`, zIndex: 99 });
  document.body.append(box);
  const overlays = { ...OVERLAYS, labels: false, tracks: false };
  const tell = (state) => (window.state = state);
  render(html`<${Player} pipeline="street" stream="gate" overlays=${overlays} onState=${tell} />`, box);
}"""
READ = """async ([seconds, cells]) => {
  const canvas = document.querySelector("#stage canvas");
  const context = canvas.getContext("2d");
  const rows = [];
  let last = -1;
  const until = performance.now() + seconds * 1000;
  const look = (done) => {
    const top = context.getImageData(0, 8, canvas.width, 1).data;
    let value = 0;
    for (let cell = 0; cell < cells; cell++) {
      value = 2 * value + (top[4 * Math.floor(((cell + 0.5) * canvas.width) / cells)] > 128 ? 1 : 0);
    }
    if (value !== last) {
      const band = context.getImageData(0, 188, canvas.width, 1).data;
      let place = -1;
      for (let x = 0; x < canvas.width && place < 0; x++) {
        const [red, green, blue] = band.slice(4 * x, 4 * x + 3);
        if (red > 110 && blue < red / 2) place = Math.round(x / 16);
      }
      rows.push([performance.timeOrigin + performance.now(), value, place]);
      last = value;
    }
    performance.now() < until ? requestAnimationFrame(() => look(done)) : done(rows);
  };
  return new Promise(look);
}"""


def place_of(stamp: int) -> int:
    """The place of the box of an image, by the time in it; images that follow each other have different ones."""
    return stamp // PLACE_MS % PLACES


class Stamp(Element):
    """Paints the time of day in milliseconds, modulo 2^32, into the upper rows, and a grey band for the box."""

    name: ClassVar[str] = "stamp"
    changes_images: ClassVar[bool] = True

    def build(self, site: Site) -> Operator:
        """Make the operator."""
        del site
        return _Painter()


class _Painter(Operator):
    def process(self, batch: Batch) -> Batch:
        """Paint."""
        surfaces = []
        for frame in batch.frames:
            surface = frame.surface.writable()
            luma = surface.planes[0]
            bits = int(time.time() * 1e3) % (1 << CELLS) >> np.arange(CELLS - 1, -1, -1) & 1
            luma[:CELL_HEIGHT] = np.repeat(np.where(bits, 235, 16).astype(np.uint8), luma.shape[1] // CELLS)
            luma[slice(*BAND)] = 128
            for plane in surface.planes[1:]:
                plane[: CELL_HEIGHT // 2] = 128
                plane[BAND[0] // 2 : BAND[1] // 2] = 128
            surfaces.append(surface)
        return batch.with_surfaces(surfaces)


class ReadStamp(Element):
    """Reads the time in each image, and finds an object whose place says which image it is."""

    name: ClassVar[str] = "read_stamp"

    def build(self, site: Site) -> Operator:
        """Make the operator."""
        del site
        return _Reader()


class _Reader(Operator):
    def process(self, batch: Batch) -> Batch:
        """Read."""
        stamps = [stamp_in(frame.surface.planes[0]) for frame in batch.frames]
        boxes = [[16.0 * place_of(one), 180.0, 16.0 * place_of(one) + 12, 196.0] for one in stamps]
        count = len(stamps)
        objects = Objects.from_columns(
            frame=range(count),
            xyxy=boxes,
            confidence=np.ones(count),
            class_id=np.zeros(count),
            source=Origin("read_stamp", ("image",)),
        )
        return batch.with_objects(objects)


def stamp_in(luma: npt.NDArray[np.uint8]) -> int:
    """The time that an image shows."""
    width = luma.shape[1] // CELLS
    bits = (luma[CELL_HEIGHT // 2, width // 2 :: width] > 128).astype(np.int64)
    return int(bits @ (1 << np.arange(CELLS - 1, -1, -1)))


def run_camera(clip: str, port: int) -> None:
    """The camera: a process of its own."""
    source: dict[str, Any] = {"uri": clip, "realtime": True, "loop": True}
    steps: list[Any] = [Stamp(), {"publish": {"rtsp": f"127.0.0.1:{port}/{{stream}}"}}]
    Pipeline(sources={"gate": source}, steps=steps).run()


def run_server(camera: int, *, reads: bool) -> None:
    """The pipeline that is measured: prints the port of its server."""
    steps: list[Any] = [ReadStamp()] if reads else []
    pipeline = Pipeline(name="street", sources={"gate": f"rtsp://127.0.0.1:{camera}/gate"}, steps=steps)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        print(listener.port, flush=True)
        sys.stdin.read()


async def view(port: int, *, count: int, seconds: float) -> None:
    """Viewers that take everything and draw nothing."""
    from websockets.asyncio.client import connect

    url = f"ws://127.0.0.1:{port}/api/v1/pipelines/street/streams/gate/live?plays=h264&token={TOKEN}"

    async def watch() -> None:
        async with connect(url, max_size=None) as client:
            received = 0
            async for message in client:
                received += isinstance(message, bytes)
                if received % 8 == 0:
                    await client.send(str(received))

    tasks = [asyncio.ensure_future(watch()) for _ in range(count)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in done), done


def free_port() -> int:
    """A port that nobody listens at just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(folder: Path, size_wh: tuple[int, int], *, reads: bool) -> Iterator[tuple[int, int]]:
    """A camera and the pipeline that reads it: the port and the process of the latter."""
    clip, camera = folder / f"{size_wh[0]}.mp4", free_port()
    if not clip.exists():
        write_clip(clip, size_wh=size_wh, count=250)
    this = [sys.executable, "-m", "benchmarks.dashboard"]
    sending = subprocess.Popen([*this, "--camera", str(clip), "--port", str(camera)])
    role = [*this, "--server", "--port", str(camera), *(["--reads"] if reads else [])]
    with subprocess.Popen(role, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        try:
            yield int(serving.stdout.readline()), serving.pid
        finally:
            sending.terminate()
            sending.wait()
            serving.communicate()


def watched(port: int, mode: str, *, seconds: float) -> list[tuple[float, int, int]]:
    """What a browser shows: when (milliseconds since 1970), the time in the image, and the place of the box."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": SIZE_WH[0], "height": SIZE_WH[1]})
        page.add_init_script(MODES[mode])
        page.goto(f"http://127.0.0.1:{port}/?token={TOKEN}")
        page.wait_for_selector("#summary")
        page.evaluate(PLAY, list(SIZE_WH))
        while page.evaluate("window.state?.state") != "live" or page.evaluate("window.state.drawn"):
            page.wait_for_timeout(100)
        page.wait_for_timeout(3_000)
        assert page.evaluate("window.state.mode") == mode
        rows: list[tuple[float, int, int]] = page.evaluate(READ, [seconds, CELLS])
        browser.close()
    return rows


def latency(folder: Path, *, seconds: float) -> Iterator[str]:
    """The lines of the table of latency."""
    yield "| decoder | images | p50 ms | p95 ms | box and image of the same frame |"
    yield "|---|---|---|---|---|"
    with served(folder, SIZE_WH, reads=True) as (port, _):
        for mode in MODES:
            rows = watched(port, mode, seconds=seconds)
            late = sorted((at - stamp) % (1 << CELLS) for at, stamp, _ in rows)
            same = sum(place == place_of(stamp) for _, stamp, place in rows) / len(rows)
            p50, p95 = statistics.median(late), late[int(len(late) * 0.95)]
            yield f"| {mode} | {len(rows)} | {p50:.0f} | {p95:.0f} | {100 * same:.1f} % |"


def cpu_seconds(process: int) -> float:
    """The CPU time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def costs(folder: Path, *, seconds: float) -> Iterator[str]:
    """The lines of the table of costs."""
    spent: dict[int, list[float]] = {0: [], 1: [], 10: []}
    this = [sys.executable, "-m", "benchmarks.dashboard"]
    with served(folder, LARGE_WH, reads=False) as (port, process):
        time.sleep(5)
        for _ in range(ROUNDS):
            for count, known in spent.items():
                role = [*this, "--view", str(count), "--port", str(port), "--seconds", str(seconds + 4)]
                with subprocess.Popen(role):
                    time.sleep(3)
                    before, begun = cpu_seconds(process), time.monotonic()
                    time.sleep(seconds)
                    known.append((cpu_seconds(process) - before) / (time.monotonic() - begun))
    base = statistics.median(spent[0])
    yield "| viewers | CPU of the process, % of a core | more than without |"
    yield "|---|---|---|"
    for count, known in spent.items():
        share = statistics.median(known)
        yield f"| {count} | {100 * share:.1f} | {100 * (share - base):.1f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="how long each is watched")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks/dashboard.md")
    for name, kind in (("--camera", str), ("--view", int), ("--port", int)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    for name in ("--server", "--reads"):
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.camera:
        run_camera(given.camera, given.port)
    elif given.server:
        run_server(given.port, reads=given.reads)
    elif given.view is not None:
        asyncio.run(view(given.port, count=given.view, seconds=given.seconds))
    else:
        lines = []
        with tempfile.TemporaryDirectory() as folder:
            for line in (
                *latency(Path(folder), seconds=given.seconds),
                "",
                *costs(Path(folder), seconds=given.seconds),
            ):
                lines.append(line)
                print(line, flush=True)
        if given.write:
            when = f"Measured on {datetime.now(tz=UTC):%Y-%m-%d}, on {machine()}."
            head, mark, _ = PAGE.read_text().partition("## Figures\n")
            PAGE.write_text("\n".join([f"{head}{mark}", when, "", *lines, ""]))


if __name__ == "__main__":
    main()
