"""The screen of the system: what is used, kept, delivered, logged and changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.dashboard.browser import PHONE, check_accessible, until
from tests.integration.delivery.web_server import web_server
from tests.integration.server.conftest import endless, wait_for
from tests.ports import free_port

from sightline import Pipeline
from sightline.server import Listener, listen
from sightline.server.credentials import Role, TokenFile

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = "<img src=x onerror='window.pwned = 1'>"
LOG = logging.getLogger("sightline.example")


@pytest.fixture(scope="module")
def port() -> int:
    """Where nobody listens, until a test does."""
    return free_port()


@pytest.fixture(scope="module")
def tokens() -> Iterator[dict[Role, str]]:
    known = TokenFile()
    yield {role: known.add(f"{role}-of-system", role) for role in (Role.VIEWER, Role.ADMIN)}
    for role in (Role.VIEWER, Role.ADMIN):
        known.remove(f"{role}-of-system")


@pytest.fixture(scope="module")
def shown(port: int, tokens: dict[Role, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    """Images of one colour that would be recorded, and go to a destination that is not there."""
    hook = {"webhook": {"url": f"http://admin:hunter2@127.0.0.1:{port}/seen", "timeout": "5s"}}
    record = {"record": {"path": "clips/{stream}-{time}.mp4", "keep": {"size": "5GB", "age": "7d"}}}
    outputs: Path = tmp_path_factory.mktemp("outputs")
    (outputs / "clips").mkdir()
    (outputs / "clips" / "gate-1.mp4").write_bytes(bytes(3 * 2**20))
    sources = {"gate": endless(pattern="solid")}
    pipeline = Pipeline(name="street", sources=sources, steps=["draw", record, hook], outputs=outputs)
    with listen(pipeline, "127.0.0.1:0") as listener, pipeline:
        yield listener


def opened(page: Page, shown: Listener, token: str) -> None:
    page.goto(f"{shown.url}?token={token}#/street/system")
    page.wait_for_selector(".system .panel")


def row(page: Page, panel: str, first: str) -> list[str]:
    """The cells of the row of a panel's table that begins so."""
    rows = page.locator(f"section[aria-label='{panel}'] tbody tr").all()
    return next(found for one in rows if (found := one.locator("td").all_inner_texts())[0].startswith(first))


def test_what_is_used_and_kept_is_shown_with_its_limits(shown: Listener, tokens: dict[Role, str], page: Page) -> None:
    opened(page, shown, tokens[Role.ADMIN])

    assert page.locator("section[aria-label=Processor] [role=meter]").count() == 2
    assert "cores" in page.locator("section[aria-label=Processor] .meter-text").first.inner_text()
    assert page.locator("section[aria-label=Memory] .meter-text").first.inner_text().endswith(("MiB", "GiB"))
    files, size, limits = row(page, "Disks and retention", "record-1")[1:]
    assert (files, size) == ("1", "3.0 MiB")
    assert "size 5GB" in limits
    assert "age 7d" in limits
    assert row(page, "What runs where", "draw-1")[1] == "cpu"
    assert "free of" in page.locator("section[aria-label='Disks and retention'] .meter-text").first.inner_text()
    until(page, "document.querySelector('section[aria-label=Processor] .plot canvas')?.width > 0")
    assert "hunter2" not in page.content()
    check_accessible(page)


def test_a_destination_is_shown_lost_and_back(shown: Listener, tokens: dict[Role, str], page: Page, port: int) -> None:
    opened(page, shown, tokens[Role.VIEWER])
    state = "document.querySelector('#deliveries tbody .badge')?.textContent"
    until(page, f"{state} === 'lost'")
    cells = page.locator("#deliveries tbody td").all_inner_texts()
    assert cells[0] == "webhook-1"
    assert cells[-1].startswith(f"http://127.0.0.1:{port}/seen")

    with web_server(lambda exchange, _: exchange.answer(204), port=port):
        until(page, f"{state} === 'connected'")
        until(page, "parseInt(document.querySelector('#deliveries tbody td:nth-child(3)').textContent) > 0")
        until(page, "!document.querySelector('#deliveries .bad')")


def test_the_log_is_followed_filtered_and_shown_as_text(shown: Listener, tokens: dict[Role, str], page: Page) -> None:
    opened(page, shown, tokens[Role.VIEWER])
    lines = "[...document.querySelectorAll('.log-panel .log li')].map((line) => line.textContent)"
    until(page, f"{lines}.some((line) => line.includes('gate: started'))")

    LOG.warning("no answer of rtsp://admin:hunter2@10.0.0.7/main %s", HOSTILE)

    told = f"rtsp://***@10.0.0.7/main {HOSTILE.replace(chr(39), chr(92) + chr(39))}"
    until(page, f"{lines}.some((line) => line.includes('{told}'))")  # the run may have logged something since
    page.select_option(".log-panel select", "warning")
    until(page, f"{lines}.length && !{lines}.some((line) => line.includes('gate: started'))")
    page.fill(".log-panel input[type=search]", "10.0.0.7")
    until(page, f"{lines}.length === 1")
    assert page.evaluate("window.pwned") is None
    check_accessible(page)


def test_only_an_admin_sees_who_changed_what(shown: Listener, tokens: dict[Role, str], page: Page) -> None:
    opened(page, shown, tokens[Role.VIEWER])
    assert page.locator("section[aria-label='Who changed what']").count() == 0
    page.context.clear_cookies()

    opened(page, shown, tokens[Role.ADMIN])
    page.evaluate(
        "fetch('api/v1/pipelines/street/streams/gate/record', {method: 'POST'}).then((answer) => answer.status)"
    )
    page.reload()

    cells = "document.querySelectorAll('section[aria-label=\"Who changed what\"] tbody td')"
    until(page, f"{cells}[2]?.textContent === 'record gate'")
    assert page.evaluate(f"{cells}[1].textContent").startswith("admin-of-system admin")


def test_a_phone_shows_the_system_without_scrolling_sideways(
    shown: Listener, tokens: dict[Role, str], page: Page
) -> None:
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    opened(page, shown, tokens[Role.ADMIN])

    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    wait_for(lambda: page.locator(".log-panel .log li").count())
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
