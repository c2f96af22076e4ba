"""Images of the dashboard for the documentation, taken from the demo: `python -m tools.screenshots`.

It runs `sightline demo` in a folder of its own, waits until there is something to see, and takes each screen in a real
Chromium. The images are WebP below `docs/images/dashboard/`; the name of one in dark colours ends with `-dark`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "dashboard"
LARGEST_BYTES = 120_000
_LINK = re.compile(r"the dashboard: (?P<url>\S+)\?token=(?P<token>\w+)")
_WIDE, _PHONE = (1280, 800), (360, 740)
_PATIENCE_SECONDS = 300.0
_QUALITIES = (85, 75, 65, 50, 35)


@dataclass(frozen=True, slots=True)
class Shot:
    """An image: its name, the route behind `#/town/`, and what is pressed before it is taken (a CSS selector)."""

    name: str
    route: str
    is_dark: bool = False
    size_wh: tuple[int, int] = _WIDE
    press: str = ""


SHOTS = (
    Shot("wall", "wall"),
    Shot("wall-dark", "wall", is_dark=True),
    Shot("wall-phone", "wall", is_dark=True, size_wh=_PHONE),
    Shot("camera-dark", "camera/street", is_dark=True),
    Shot("zones", "zones/street"),
    Shot("events", "events"),
    Shot("analytics", "analytics"),
    Shot("graph", "graph"),
    Shot("graph-dark", "graph/step/detect-1", is_dark=True),
    Shot("cameras", "cameras"),
    Shot("configuration", "configuration"),
    Shot("system", "system"),
    Shot("system-dark", "system", is_dark=True),
    Shot("keys", "wall", press="#shortcuts"),
)


@contextmanager
def demo(folder: Path) -> Iterator[tuple[str, str]]:
    """Run the demo in a folder while the block is open, and give its address and token."""
    command = (sys.executable, "-m", "sightline.cli.main", "demo", "--no-open", "--port", "0", str(folder))
    environment = {name: value for name, value in os.environ.items() if name != "SIGHTLINE_TOKEN"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := _LINK.search(line):
                    yield found["url"], found["token"]
                    return
            raise RuntimeError("the demo has not begun: run `sightline demo --no-open` to see why")
        finally:
            process.send_signal(signal.SIGINT)
            process.stderr.read()


def take(browser: Browser, url: str, shot: Shot, *, state: Path, seconds: float) -> bytes:
    """Return a screen as PNG, `seconds` after it was opened, so that video plays."""
    context = browser.new_context(
        viewport={"width": shot.size_wh[0], "height": shot.size_wh[1]},
        color_scheme="dark" if shot.is_dark else "light",
        storage_state=state,
        reduced_motion="reduce",
    )
    try:
        page = context.new_page()
        page.goto(f"{url}#/town/{shot.route}")
        page.wait_for_selector("main > *", timeout=1000 * _PATIENCE_SECONDS)
        page.wait_for_timeout(1000 * seconds)
        if shot.press:
            page.click(shot.press)
            page.wait_for_timeout(500)
        return page.screenshot()
    finally:
        context.close()


def compressed(png: bytes) -> bytes:
    """Return an image as WebP, in the best quality that is small enough."""
    image = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    for quality in _QUALITIES:
        _, encoded = cv2.imencode(".webp", image, (cv2.IMWRITE_WEBP_QUALITY, quality))
        if encoded.nbytes <= LARGEST_BYTES:
            break
    return encoded.tobytes()


def main() -> None:
    """Take all images, or those whose names are given."""
    from playwright.sync_api import sync_playwright

    wanted = [one for one in SHOTS if not sys.argv[1:] or one.name in sys.argv[1:]]
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("chromium is not installed (Debian: chromium)")
    TARGET.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        demo(Path(scratch) / "demo") as (url, token),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        state = Path(scratch) / "state.json"
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{url}?token={token}")
        _wait_until_seen(page)
        context.storage_state(path=state)
        context.close()
        for shot in wanted:
            image = compressed(take(browser, url, shot, state=state, seconds=6))
            (TARGET / f"{shot.name}.webp").write_bytes(image)
            print(f"{shot.name}: {len(image) / 1000:.0f} KB")
        browser.close()


def _wait_until_seen(page: Page) -> None:
    """Wait until all cameras are live and there are some minutes of counts."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while page.locator("#summary .badge.good").count() == 0 and time.monotonic() < deadline:
        page.wait_for_timeout(500)
    page.wait_for_timeout(1000 * float(os.environ.get("SECONDS_OF_DEMO", "60")))


if __name__ == "__main__":
    main()
