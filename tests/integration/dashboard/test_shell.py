"""The frame around the screens of the dashboard: login, pipelines, and what is wrong with all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.dashboard.browser import PHONE, check_accessible, until
from tests.integration.server.conftest import TOKEN, endless

from sightline import Pipeline
from sightline.server import Listener, listen

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

HOSTILE = "<img src=x onerror='window.pwned = 1'><script>window.pwned = 1</script>"
PIPELINES, ONE = "**/api/v1/pipelines", "**/api/v1/pipelines/street"


@pytest.fixture
def pipeline() -> Pipeline:
    """An image of a known colour, and a camera that is not there."""
    sources: dict[str, Mapping[str, object]] = {
        "gate": endless(pattern="solid", color=[200, 40, 40]),
        "camera": {"uri": "rtsp://admin:hunter2@127.0.0.1:9/main"},
    }
    return Pipeline(name="street", sources=sources, steps=["draw"])


@pytest.fixture
def shown(pipeline: Pipeline) -> Iterator[Listener]:
    """The pipeline, running and served."""
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        yield listener


def test_the_only_pipeline_is_opened_and_summed_up(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")

    until(page, "document.querySelector('#summary .badge')?.textContent === '1 of 2 streams live'")
    assert page.locator("#summary b").inner_text() == "street"
    assert "hunter2" not in page.content()
    check_accessible(page)


def test_nothing_is_loaded_from_elsewhere(shown: Listener, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.split("/")[2]))
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector("#summary")

    assert set(asked) == {f"127.0.0.1:{shown.port}"}


def test_texts_are_shown_as_text(shown: Listener, page: Page) -> None:
    page.route(PIPELINES, _with_hostile_texts)
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector(".card a")

    assert "onerror" in page.locator(".card").first.inner_text()
    assert page.evaluate("window.pwned") is None
    assert page.locator("script").count() == 1


def _with_hostile_texts(route: Route) -> None:
    (one,) = route.fetch().json()
    hostile = {**one, "name": f"{one['name']} {HOSTILE}", "why": HOSTILE, "file": HOSTILE, "state": "invalid"}
    route.fulfill(json=[hostile, one])


def test_a_phone_shows_it_without_scrolling_sideways(shown: Listener, page: Page) -> None:
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector("#summary")

    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_the_end_of_the_pipeline_is_seen(pipeline: Pipeline, page: Page) -> None:
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener:
        with pipeline:
            page.goto(f"{listener.url}?token={TOKEN}")
            page.wait_for_selector("#summary")
        until(page, "document.querySelector('#summary .badge').textContent === 'not running'")
    until(page, "document.getElementById('alarm')?.textContent.trim().startsWith('No answer')")


def test_an_overload_is_told(shown: Listener, page: Page) -> None:
    def overload(route: Route) -> None:
        plain: dict[str, Any] = route.fetch().json()
        route.fulfill(json={**plain, "overloaded": True})

    page.route(ONE, overload)
    page.goto(f"{shown.url}?token={TOKEN}")

    until(page, "document.getElementById('alarm')?.textContent.trim().startsWith('Overloaded')")


def test_the_token_is_asked_for_leaves_the_address_and_is_forgotten(shown: Listener, page: Page) -> None:
    page.goto(shown.url)
    check_accessible(page)
    page.fill("input[name=token]", TOKEN)
    page.click("button")
    page.wait_for_selector("#summary")
    assert page.url.startswith(f"{shown.url}#/street") or page.url == shown.url
    assert TOKEN not in page.evaluate("document.cookie")

    page.click("text=Log out")

    page.wait_for_selector("input[name=token]")


def test_the_colours_are_chosen_and_kept(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")
    page.click("#theme")
    until(page, "getComputedStyle(document.body).backgroundColor === 'rgb(14, 19, 24)'")
    page.click("#theme")
    until(page, "getComputedStyle(document.body).backgroundColor === 'rgb(243, 245, 247)'")

    page.reload()

    until(page, "getComputedStyle(document.documentElement).colorScheme === 'light'")


def test_an_unknown_pipeline_is_told(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector("#summary")
    page.goto(f"{shown.url}#/other/wall")

    until(page, "document.querySelector('main [role=alert]')?.textContent === 'There is no pipeline other.'")
