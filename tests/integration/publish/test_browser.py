"""The page, in a real browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.dashboard.browser import browser as browser
from tests.integration.publish.publishing import COUNTER, SIZE_WH, TOKEN, publishing, write_counter

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_SECONDS = 300.0
OWN = ("http://127.0.0.1:", "ws://127.0.0.1:", "blob:", "data:")
NUMBER = """() => {
  const video = document.querySelector('[data-stream=gate] video');
  if (!video || video.readyState < 2) return null;
  const [width, height] = [video.videoWidth, video.videoHeight];
  const canvas = Object.assign(document.createElement('canvas'), {width, height});
  const context = canvas.getContext('2d');
  let image;
  try { image = new VideoFrame(video); } catch { return null; }  // between two images
  const at = image.timestamp / 1e6;
  context.drawImage(image, 0, 0, width, height);
  image.close();
  let number = 0;
  for (let cell = 0; cell < 16; cell++) {
    const [red] = context.getImageData((cell + 0.5) * width / 16, height / 2, 1, 1).data;
    number = 2 * number + (red > 128 ? 1 : 0);
  }
  return {number, at, width, height};
}"""
"""What the player of the stream `gate` shows: the counter's number, read from the canvas, and that image's time."""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page; what goes wrong in it, and what it asks of other servers, fails the test."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_SECONDS * 1000)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: faults.append(line.text) if "Security Policy" in line.text else None)
    page.on(
        "request",
        lambda asked: (
            None if "127.0.0.1" in asked.url or asked.url[:5] in ("blob:", "data:") else faults.append(asked.url)
        ),
    )
    yield page
    context.close()
    assert faults == []


def until(page: Page, condition: str) -> Any:
    """Wait until something is so on the page, and return it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := page.evaluate(condition)):
        assert time.monotonic() < deadline, f"it did not become so in time: {condition}"
        page.wait_for_timeout(50)
    return found


def shown(page: Page, *, after: float = 0.0) -> dict[str, int | float]:
    """What is shown once playback has passed a time."""
    wanted = f"() => {{ const now = ({NUMBER})(); return now && now.number > 0 && now.at > {after} ? now : null; }}"
    found: dict[str, int | float] = until(page, wanted)
    return found


@pytest.mark.parametrize("steps", [[], ["draw"]], ids=["untouched", "drawn"])
def test_images_move_and_are_those_that_were_published(page: Page, steps: list[str], tmp_path: Path) -> None:
    source = {"uri": str(write_counter(tmp_path / "clip.mp4", count=1_000)), "realtime": True}
    with publishing({"web": True}, sources={"gate": source}, before=steps) as published:
        page.goto(published.url())
        first = shown(page)
        later = shown(page, after=first["at"] + 1.0)

    assert (first["width"], first["height"]) == SIZE_WH
    assert later["number"] - first["number"] >= 20
    assert later["number"] == pytest.approx(later["at"] * 25, abs=3)


def test_playback_stays_close_to_the_newest_image(page: Page) -> None:
    with publishing({"web": True}) as published:
        page.goto(published.url())
        begun = shown(page)
        shown(page, after=begun["at"] + 2.0)
        behind = [published.frames - shown(page)["number"] for _ in range(5)]

    assert min(behind) < 25  # a busy machine does not keep all five waiting


def test_every_stream_has_its_place_and_those_that_end_go(page: Page) -> None:
    with publishing({"web": True}, sources={"gate": COUNTER, "yard": COUNTER}) as published:
        page.goto(published.url())
        until(page, "() => document.querySelectorAll('figure').length === 2")
        names = page.locator("figcaption > b").all_text_contents()
        published.pipeline.remove_source("yard")
        until(page, "() => document.querySelectorAll('figure').length === 1")

    assert names == ["gate", "yard"]


def test_a_page_goes_on_when_the_pipeline_comes_back(page: Page) -> None:
    with publishing({"web": True}) as published:
        page.goto(published.url())
        shown(page, after=0.5)
    until(page, "() => document.querySelector('#note').textContent === 'No connection.'")
    with publishing({"web": True}, port=published.port):
        until(page, "() => document.querySelector('#note').textContent === ''")
        assert shown(page)["number"] > 0


def test_who_has_logged_in_needs_no_token_in_the_address(page: Page) -> None:
    with publishing({"web": True}) as published:
        page.goto(f"http://127.0.0.1:{published.port}/?token={TOKEN}")
        page.goto(published.url(token=None))
        shown(page)

    assert "token" not in page.url
