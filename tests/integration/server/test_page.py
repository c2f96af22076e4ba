"""The page, in a real browser."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sightline import Pipeline
from sightline.server import Listener, listen
from tests.conftest import missing
from tests.integration.delivery.servers import free_port
from tests.integration.delivery.web_server import web_server
from tests.integration.server.conftest import TOKEN, endless

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "<img src=x onerror='window.pwned = 1'><script>window.pwned = 1</script>"
PHONE = {"width": 360, "height": 740}
PATIENCE_MS = 300_000
SHORTEST_MS = 250
"""Between two images of a stream, by the clock of the page, which puts the time into the address."""
MIDDLE = """() => {
  const image = document.querySelector('.screen img');
  if (!image) return null;
  const canvas = Object.assign(document.createElement('canvas'), {width: 64, height: 48});
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0, 64, 48);
  return [...context.getImageData(32, 24, 1, 1).data].slice(0, 3);
}"""


def until(page: Page, condition: str) -> None:
    """Wait until something is so on the page; Playwright's own way needs `eval`, which the page forbids."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, f"it did not become so in time: {condition}"
        page.wait_for_timeout(50)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed (pip install playwright)")
    program = shutil.which("chromium")
    if program is None:
        missing("chromium is not installed (Debian: chromium)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that has shown nothing yet; what goes wrong in it fails the test."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: faults.append(line.text) if "Security Policy" in line.text else None)
    yield page
    page.unroute_all(behavior="ignoreErrors")  # a request may be under way just now
    context.close()
    assert faults == []


@pytest.fixture
def pipeline() -> Pipeline:
    """An image of a known colour, a camera that is not there, and a message with a hostile text."""
    sources: dict[str, Mapping[str, object]] = {
        "gate": endless(pattern="solid", color=[200, 40, 40]),
        "camera": {"uri": "rtsp://admin:hunter2@127.0.0.1:9/main"},
    }
    return Pipeline(name="street", sources=sources, steps=["draw"])


@pytest.fixture
def shown(pipeline: Pipeline) -> Iterator[Listener]:
    """The pipeline, running and watched."""
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        yield listener


def test_streams_are_shown_with_their_states(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")

    until(page, "document.querySelectorAll('.badge.live').length === 1")
    until(page, "document.querySelectorAll('.badge.lost').length === 1")
    until(page, "document.getElementById('summary').textContent === '1 of 2 streams live'")
    until(page, "parseFloat(document.querySelector('[data-of=rate]').textContent) > 5")
    assert page.locator("h3").all_inner_texts() == ["gate", "camera"]
    assert "refused" in page.locator(".cause").nth(1).inner_text()
    assert "hunter2" not in page.content()


def test_pages_of_steps_are_linked(page: Page) -> None:
    pipeline = Pipeline(sources={"gate": endless()}, steps=["draw", {"publish": {"web": True}}])
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        page.goto(f"{listener.url}?token={TOKEN}")
        page.click("#served a")
        page.wait_for_selector("figure[data-stream=gate]")

        assert page.url == f"{listener.url}steps/publish-1/"


def test_live_images_have_the_colours_of_the_stream(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")

    page.wait_for_selector(".screen img")
    red, green, blue = page.evaluate(MIDDLE)
    assert (abs(red - 200), abs(green - 40), abs(blue - 40)) <= (6, 6, 6)
    assert max(abs(red - 200), abs(green - 40), abs(blue - 40)) <= 6


def test_images_are_renewed_and_at_most_a_few_times_a_second(shown: Listener, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "image.jpg" in request.url else None)
    page.goto(f"{shown.url}?token={TOKEN}")

    deadline = time.monotonic() + PATIENCE_MS / 1000
    while len(asked) < 6:
        assert time.monotonic() < deadline, "images are not renewed"
        page.wait_for_timeout(50)

    asked_at_ms = [int(url.partition("?")[2]) for url in asked]
    assert min(later - earlier for earlier, later in pairwise(asked_at_ms)) >= SHORTEST_MS
    assert {url.split("/streams/")[1].split("/")[0] for url in asked} == {"gate"}


def test_nothing_is_loaded_from_elsewhere(shown: Listener, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.split("/")[2]))
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector(".screen img")

    assert set(asked) == {f"127.0.0.1:{shown.port}"}


def test_texts_are_shown_as_text(shown: Listener, page: Page) -> None:
    page.route("**/status", lambda route: route.fulfill(json=_hostile(route.fetch().json())))
    page.goto(f"{shown.url}?token={TOKEN}")
    until(page, "document.getElementById('messages').textContent.includes('onerror')")

    for place in ("#pipeline", "h3", ".badge", ".small", "#steps td", "#queues td", "#messages li"):
        assert "window.pwned" in page.locator(place).first.inner_text(), place
    assert page.evaluate("window.pwned") is None
    assert page.locator("script").count() == 1


def _hostile(plain: Any) -> Any:
    """The same with every text replaced."""
    if isinstance(plain, dict):
        return {key: _hostile(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_hostile(value) for value in plain]
    return f"{plain} {HOSTILE}" if isinstance(plain, str) else plain


def test_a_phone_shows_it_without_scrolling_sideways(shown: Listener, page: Page) -> None:
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector(".screen img")

    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_streams_that_are_gone_leave_the_page(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")
    until(page, "document.querySelectorAll('.card').length === 2")

    page.route(
        "**/status",
        lambda route: route.fulfill(json={**(plain := route.fetch().json()), "streams": plain["streams"][:1]}),
    )

    until(page, "document.querySelectorAll('.card').length === 1")


def test_without_deliveries_there_is_no_panel_for_them(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector(".badge.live")

    assert page.locator("#deliveries-panel").is_hidden()


def test_a_destination_is_shown_lost_and_back(page: Page, tmp_path: Path) -> None:
    port = free_port()
    hook = {"webhook": {"url": f"http://admin:hunter2@127.0.0.1:{port}/seen", "timeout": "5s"}}
    pipeline = Pipeline(sources={"gate": endless()}, steps=["draw", hook], outputs=tmp_path)
    state = "document.querySelector('#deliveries tbody td:nth-child(2)')?.textContent"
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        page.goto(f"{listener.url}?token={TOKEN}")
        until(page, f"{state} === 'lost'")
        row = page.locator("#deliveries tbody td").all_inner_texts()
        assert row[0] == "webhook-1"
        assert row[-1].startswith(f"http://127.0.0.1:{port}/seen: ")
        assert page.locator("#deliveries-panel").is_visible()
        assert "hunter2" not in page.content()

        with web_server(lambda exchange, _: exchange.answer(204), port=port):
            until(page, f"{state} === 'connected'")
            until(page, "parseInt(document.querySelector('#deliveries tbody td:nth-child(3)').textContent) > 0")
            assert page.locator("#deliveries tbody td").last.inner_text() == f"http://127.0.0.1:{port}/seen"


def test_the_end_of_the_pipeline_is_seen(pipeline: Pipeline, page: Page) -> None:
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener:
        with pipeline:
            page.goto(f"{listener.url}?token={TOKEN}")
            page.wait_for_selector(".badge.live")
        until(page, "document.getElementById('summary').textContent === 'not running'")
    until(page, "document.getElementById('alarm').textContent.startsWith('No answer')")


def test_the_token_is_asked_for_and_leaves_the_address(page: Page) -> None:
    pipeline = Pipeline(sources={"gate": endless()}, steps=["draw"])
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        page.goto(listener.url)
        page.fill("input[name=token]", TOKEN)
        page.click("button")
        page.wait_for_selector(".screen img")

        assert page.url == listener.url
        assert TOKEN not in page.evaluate("document.cookie")
