"""The configuration in a browser: suggestions, mistakes in place, differences, applying and going back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.dashboard.browser import PHONE, check_accessible, until
from tests.integration.server.conftest import TOKEN

from sightline import Pipeline
from sightline.server import Listener, listen

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

BOXES = Path(__file__).resolve().parents[3] / "sample_videos" / "gate.mot.txt"
FILE = f"""\
name: street
sources:
  gate: {{pattern: solid, size: [64, 48], frames: null, realtime: true, fps: 5}}  # north
keep_running: true
pipeline:
  - replay: {{path: {BOXES}, format: mot, label: car}}
  - track  # before lines
  - lines:
      gate_in: {{from: [0.1, 0.6], to: [0.9, 0.6]}}
"""
AREA = ".editor textarea"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("configuration") / "street.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture(scope="module")
def served(file: Path) -> Iterator[Listener]:
    """A pipeline from a file, running and served."""
    pipeline = Pipeline.from_yaml(file, outputs=file.parent / "out")
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        yield listener


@pytest.fixture
def editor(served: Listener, page: Page) -> Page:
    """The screen, with suggestions ready."""
    with page.expect_response("**/configuration/schema"):
        page.goto(f"{served.url}?token={TOKEN}#/street/configuration")
        page.wait_for_selector("#summary")
        page.goto(f"{served.url}#/street/configuration")
    page.wait_for_selector(AREA)
    return page


def place_caret(page: Page, before: str) -> None:
    """Put the caret behind a text."""
    at = page.input_value(AREA).index(before) + len(before)
    page.focus(AREA)
    page.evaluate(f"document.querySelector('{AREA}').setSelectionRange({at}, {at})")


def replace(page: Page, old: str, new: str) -> None:
    """Type something else instead of a text."""
    at = page.input_value(AREA).index(old)
    page.focus(AREA)
    page.evaluate(f"document.querySelector('{AREA}').setSelectionRange({at}, {at + len(old)})")
    page.keyboard.insert_text(new)


def test_a_key_is_suggested_with_its_meaning_and_inserted(editor: Page) -> None:
    place_caret(editor, "keep_running: true")
    editor.keyboard.press("Enter")
    editor.keyboard.type("ou")

    until(editor, "document.querySelector('[role=option][aria-selected=true] b')?.textContent === 'outbox'")
    check_accessible(editor)
    editor.keyboard.press("Enter")
    editor.keyboard.type("pa")
    until(editor, "document.querySelector('[role=option][aria-selected=true]')?.textContent.startsWith('path')")
    editor.keyboard.press("Enter")

    assert "keep_running: true\noutbox:\n  path: " in editor.input_value(AREA)
    place_caret(editor, "- track")
    editor.keyboard.press("Enter")
    editor.keyboard.type("- zon")
    editor.keyboard.press("Enter")
    assert "- track\n- zones:\n    \n" in editor.input_value(AREA)


def test_a_mistake_is_marked_where_it_is_with_the_right_word(editor: Page) -> None:
    replace(editor, "- track", "- trak")

    until(editor, "document.querySelector('.mistake')?.textContent === 'trak'")
    line = editor.input_value(AREA).splitlines().index("- trak") + 1
    assert f"line {line}" in editor.locator(".mistakes").inner_text()
    assert "did you mean 'track'?" in editor.locator(".mistakes").inner_text()
    mark, number = editor.locator(".mistake").bounding_box(), editor.locator(".line.wrong").bounding_box()
    assert mark is not None
    assert number is not None
    assert number["y"] <= mark["y"] + mark["height"] / 2 <= number["y"] + number["height"]
    assert editor.locator("button.main").is_disabled()
    check_accessible(editor)

    replace(editor, "- trak", "- track")
    until(editor, "document.querySelector('.mistakes').textContent === ''")


def test_a_change_is_compared_applied_saved_and_taken_back(editor: Page, file: Path) -> None:
    replace(editor, "to: [0.9, 0.6]", "to: [0.9, 0.7]")
    until(editor, "document.querySelector('.state-line [role=status]').textContent === 'No mistakes'")
    editor.click("text=Difference")
    editor.wait_for_selector(".diff .added")
    (added,) = editor.locator(".diff .added td:last-child").all_inner_texts()
    assert added.split() == ["+", "added:", "to:", "[0.9,", "0.7]"]
    check_accessible(editor)

    editor.click(".tabs a >> nth=0")
    editor.click("button.main")
    editor.wait_for_selector(".notice.good")
    editor.click("text=Save to the file")
    until(editor, "document.querySelector('.title-line').textContent.includes('The file is as what runs.')")
    assert file.read_text() == FILE.replace("0.9, 0.6", "0.9, 0.7")

    editor.click("text=Versions")
    editor.click("td button")
    check_accessible(editor)
    editor.click("dialog button.main")
    until(editor, "document.querySelector('dialog') === null")
    editor.click(".tabs a >> nth=0")
    until(editor, f"document.querySelector('{AREA}').value.includes('to: [0.9, 0.6]')")


def test_a_change_that_does_not_work_is_taken_back_with_its_reason(editor: Page) -> None:
    replace(editor, "keep_running: true", "  off: rtsp://10.255.255.1/main\nkeep_running: true")
    until(editor, "document.querySelector('.state-line [role=status]').textContent === 'No mistakes'")

    editor.click("button.main")

    until(editor, "document.querySelector('main .alarm')?.textContent.includes('It was taken back')")
    assert "off" in editor.locator("main .alarm").inner_text()
    editor.click("text=Discard")


def test_a_viewer_only_reads(served: Listener, page: Page) -> None:
    def as_viewer(route: Route) -> None:
        route.fulfill(json={"name": "guest", "role": "viewer"})

    page.route("**/api/v1/session", as_viewer)
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    page.goto(f"{served.url}?token={TOKEN}")
    page.wait_for_selector("#summary")
    page.goto(f"{served.url}#/street/configuration")
    page.wait_for_selector(AREA)

    assert page.locator(AREA).get_attribute("readonly") is not None
    assert page.locator("main button").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
