"""What the dashboard costs and asks for, its keys, and the page where a token is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.dashboard.browser import check_accessible, until
from tests.integration.server.api.conftest import REPLAY
from tests.integration.server.conftest import TOKEN, ask, endless

from sightline import Pipeline
from sightline.server import Listener, listen

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

MOST_BYTES = 400_000
SHOWN = "document.querySelector('nav a[aria-current]')?.textContent"
READY = "!['', 'Loading…'].includes(document.querySelector('main')?.textContent.trim() ?? '')"


@pytest.fixture(scope="module")
def shown() -> Iterator[Listener]:
    """A pipeline with a stream, a zone and a line."""
    steps: list[Any] = [
        REPLAY,
        "track",
        {"lines": {"road": {"from": [0.1, 0.6], "to": [0.9, 0.6]}}},
        {"zones": {"plaza": {"polygon": [[0.2, 0.4], [0.8, 0.4], [0.8, 0.9]]}}},
        "draw",
    ]
    pipeline = Pipeline(name="street", sources={"gate": endless(pattern="solid")}, steps=steps)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        yield listener


def is_image(request: Request) -> bool:
    """Whether a request is for what a camera shows."""
    return "/api/" in request.url and request.resource_type in ("image", "media", "websocket")


def test_the_first_screen_is_light(shown: Listener, page: Page) -> None:
    ended: list[Request] = []
    page.on("requestfinished", lambda request: ended.append(request))
    page.goto(f"{shown.url}?token={TOKEN}")
    until(page, f"{SHOWN} === 'Live'")
    until(page, READY)
    page.wait_for_load_state("load")

    sizes = {one.url: one.sizes() for one in ended if not is_image(one)}
    files = {url: size for url, size in sizes.items() if "/dashboard/" in url}
    assert len(files) > 10
    assert sum(one["responseBodySize"] + one["responseHeadersSize"] for one in sizes.values()) < MOST_BYTES


def test_no_screen_asks_anybody_else(shown: Listener, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda opened: asked.append(opened.url))
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector("nav a")

    for name in page.locator("nav a").all_inner_texts():
        page.click(f"nav a:text-is('{name}')")
        until(page, f"{SHOWN} === '{name}'")
        until(page, READY)

    own = (f"http://127.0.0.1:{shown.port}/", f"ws://127.0.0.1:{shown.port}/", "data:", "blob:")
    assert [url for url in asked if not url.startswith(own)] == []


def test_keys_are_listed_and_open_screens_unless_switched_off(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")
    until(page, f"{SHOWN} === 'Live'")
    second = page.locator("nav a").nth(1).inner_text()

    page.keyboard.press("?")
    until(page, "document.querySelector('dialog[open]')")
    assert f"open {second}" in page.locator("dialog .keys").first.inner_text()
    check_accessible(page)
    page.keyboard.press("Escape")
    until(page, "!document.querySelector('dialog')")
    page.keyboard.press("2")
    until(page, f"{SHOWN} === '{second}'")

    page.click("#shortcuts")
    page.click("dialog input[type=checkbox]")
    page.keyboard.press("Escape")
    until(page, "!document.querySelector('dialog')")
    page.keyboard.press("1")
    page.keyboard.press("?")
    page.wait_for_timeout(100)
    assert page.evaluate(SHOWN) == second
    assert page.locator("dialog").count() == 0


def test_the_login_looks_like_the_dashboard_and_needs_no_token_for_that(shown: Listener, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(shown.url)

    until(page, "getComputedStyle(document.body).backgroundColor === 'rgb(14, 19, 24)'")
    assert page.locator("h1 img").evaluate("image => image.naturalWidth > 0")
    check_accessible(page)
    assert {ask(shown.port, f"/login/{name}").status for name in ("app.js", "login.html", "../index.html")} == {401}
