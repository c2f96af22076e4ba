"""A real browser for tests of what people see."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_MS = 300_000
PHONE = {"width": 360, "height": 740}
_GRAVE = ("serious", "critical")


def until(page: Page, condition: str) -> None:
    """Wait until something is so on the page; Playwright's own way needs `eval`, which the page forbids.

    What the condition is about may not be there yet, or the page may be on its way to another one.
    """
    from playwright.sync_api import Error

    deadline = time.monotonic() + PATIENCE_MS / 1000
    while True:
        try:
            if seen := page.evaluate(condition):
                return
        except Error as error:
            seen = error.message
        assert time.monotonic() < deadline, f"it did not become so in time: {condition}: {seen}"
        page.wait_for_timeout(50)


def check_accessible(page: Page) -> None:
    """Fail when axe finds a serious violation on the page as it is (WCAG 2.2, level AA)."""
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    found: Any = page.evaluate(f"axe.run({{runOnly: {json.dumps(tags)}}})")
    grave = [one for one in found["violations"] if one["impact"] in _GRAVE]
    assert not grave, "\n".join(f"{one['help']}: {[node['html'] for node in one['nodes']]}" for one in grave)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; its headless shell takes half the time, but at times never ends a large answer."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed (pip install playwright)")
    program = shutil.which("chromium")
    if program is None:
        missing("chromium is not installed (Debian: chromium)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--renderer-process-limit=1"],
        )
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that has shown nothing yet; what goes wrong in it fails the test.

    What it shows in the end is printed, for tests that waited for something else.
    """
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: faults.append(line.text) if "Security Policy" in line.text else None)
    yield page
    sys.stdout.write(f"{page.url}\n{_text_of(page)}\n")
    page.unroute_all(behavior="ignoreErrors")  # a request may be under way just now
    context.close()
    assert faults == []


def _text_of(page: Page) -> str:
    from playwright.sync_api import Error

    try:
        return page.inner_text("body", timeout=5_000)
    except Error as error:
        return error.message
