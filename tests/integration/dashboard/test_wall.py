"""The live wall: what streams show, how they are, and which of them are seen."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from tests.integration.camera.clips import noise_clip
from tests.integration.dashboard.browser import PHONE, check_accessible, until
from tests.integration.server.conftest import TOKEN, endless

from sightline import Pipeline
from sightline.server import Listener, listen
from sightline_plugins.commands.camera.server import FakeCamera

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

HOSTILE = "<img src=x onerror='window.pwned = 1'><script>window.pwned = 1</script>"
STATUS = "**/api/v1/pipelines/street"
RED = (200, 40, 40)


@pytest.fixture(scope="module")
def shown() -> Iterator[Listener]:
    """An image of a known colour, one that is silent for long, and a camera that is not there."""
    sources: dict[str, Mapping[str, object]] = {
        "gate": endless(pattern="solid", color=list(RED)),
        "yard": endless(pattern="bars"),
        "camera": {"uri": "rtsp://admin:hunter2@127.0.0.1:9/main"},
    }
    pipeline = Pipeline(name="street", sources=sources, steps=["draw"])
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        yield listener


def tile(name: str) -> str:
    return f'.tile[data-stream="{name}"]'


def text_of(selector: str) -> str:
    return f"document.querySelector('{selector}')?.innerText"


def middle_of(page: Page, selector: str) -> tuple[int, int, int]:
    """The colour that a person sees in the middle of an element, a bit above the texts there."""
    image = Image.open(io.BytesIO(page.locator(selector).screenshot())).convert("RGB")
    red, green, blue = image.getpixel((image.width // 2, image.height // 4))  # type: ignore[misc]
    return red, green, blue


def is_near(color: tuple[int, int, int], wanted: tuple[int, int, int]) -> bool:
    return max(abs(one - other) for one, other in zip(color, wanted, strict=True)) <= 12


def is_grey(color: tuple[int, int, int]) -> bool:
    return max(color) - min(color) <= 6


def wait_for_color(page: Page, selector: str, judge: Any) -> None:
    """Wait until the middle of an element looks so."""
    for _ in range(3000):
        if judge(middle_of(page, selector)):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{selector} did not become so: {middle_of(page, selector)}")


def test_tiles_show_images_states_and_causes(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")

    until(page, f"{text_of(tile('gate') + ' .badge')} === 'live'")
    until(page, f"{text_of(tile('camera') + ' .badge')} === 'lost'")
    until(page, f"parseFloat({text_of(tile('gate') + ' .numbers')}) > 5")
    wait_for_color(page, f"{tile('gate')} .view", lambda color: is_near(color, RED))
    assert page.locator(".tile h2").all_inner_texts() == ["gate", "yard", "camera"]
    assert "refused" in page.locator(f"{tile('camera')} .cause").inner_text()
    assert "lost for" in page.locator(f"{tile('camera')} .view").inner_text()
    assert "64×48" in page.locator(tile("gate")).inner_text()
    assert "hunter2" not in page.content()
    check_accessible(page)


def test_a_phone_shows_tiles_without_scrolling_sideways(shown: Listener, page: Page) -> None:
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector(tile("gate"))

    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_texts_of_streams_are_shown_as_text(shown: Listener, page: Page) -> None:
    page.route(STATUS, lambda route: route.fulfill(json=_hostile(route.fetch().json())))
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector(".tile")

    for place in (".tile h2", ".tile .facts-line", ".tile[data-state=lost] .cause", ".tile .chip"):
        until(page, f"document.querySelector('{place}')?.textContent.includes('window.pwned')")
    assert page.evaluate("window.pwned") is None
    assert page.locator("script").count() == 1


def _hostile(status: dict[str, Any]) -> dict[str, Any]:
    """The same with every text of streams replaced, but for the states."""

    def spoiled(stream: dict[str, Any]) -> dict[str, Any]:
        texts = {key: f"{one} {HOSTILE}" for key, one in stream.items() if isinstance(one, str) and key != "state"}
        return {**stream, **texts, "present": {HOSTILE: 3}, "dropped": {HOSTILE: 1}}

    return {**status, "streams": [spoiled(stream) for stream in status["streams"]]}


def test_streams_are_filtered_by_name_and_state_and_the_choice_is_a_link(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector(tile("gate"))

    page.goto(f"{shown.url}#/street/wall?state=away")
    until(page, "[...document.querySelectorAll('.tile h2')].map((one) => one.textContent).join() === 'camera'")
    page.fill("input[type=search]", "gate")
    until(page, f"{text_of('main .empty')} === 'No stream matches.'")
    page.select_option("select[title=State]", "")
    until(page, "[...document.querySelectorAll('.tile h2')].map((one) => one.textContent).join() === 'gate'")
    assert page.url.endswith("#/street/wall?name=gate")


def test_order_and_size_are_chosen_and_kept(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector(tile("gate"))
    width = page.locator(tile("gate")).bounding_box()

    page.select_option("select[title=Order]", "trouble")
    page.click("button[aria-label='Small tiles']")

    until(page, "document.querySelector('.tile h2').textContent === 'camera'")
    page.reload()
    until(page, "document.querySelector('.tile h2')?.textContent === 'camera'")
    now = page.locator(tile("gate")).bounding_box()
    assert width is not None
    assert now is not None
    assert now["width"] < 0.8 * width["width"]


LINES = """window.lines = [];
  window.WebSocket = class extends WebSocket { constructor(...given) { super(...given); window.lines.push(this); } };"""
"""Remember the connections of the page."""
OPEN = "window.lines.filter((line) => line.readyState <= WebSocket.OPEN).length"
NEAR = """[...document.querySelectorAll('.tile .view')].map((one) => one.getBoundingClientRect())
  .filter((box) => box.bottom > 0 && box.top < innerHeight).length"""
MANY = 64


@pytest.fixture(scope="module")
def many() -> Iterator[Listener]:
    """As many streams as a large site has, slow ones."""
    sources = {f"cam {number:02}": endless(pattern="solid", color=[40, 160, 40], fps=2) for number in range(MANY)}
    pipeline = Pipeline(name="street", sources=sources, steps=["draw"])
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        yield listener


def test_of_many_tiles_only_those_that_are_seen_stream(many: Listener, page: Page) -> None:
    page.add_init_script(LINES)
    page.set_viewport_size({"width": 1000, "height": 700})
    page.goto(f"{many.url}?token={TOKEN}")
    until(page, f"document.querySelectorAll('.tile').length === {MANY}")

    until(page, f"{OPEN} === {NEAR}")
    assert 0 < page.evaluate(OPEN) < MANY / 2
    page.locator(tile("cam 63")).scroll_into_view_if_needed()
    until(page, f"{OPEN} === {NEAR}")
    wait_for_color(page, f"{tile('cam 63')} .view", lambda color: is_near(color, (40, 160, 40)))
    assert 0 < page.evaluate(OPEN) < MANY / 2

    page.goto(f"{many.url}#/street/wall?name=07")
    until(page, f"document.querySelectorAll('.tile').length === 1 && {OPEN} === 1")


def test_overlays_are_chosen_and_kept(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")
    page.click(".menu summary")
    page.click("text=Boxes")
    until(page, "document.querySelector('.overlays button').getAttribute('aria-pressed') === 'false'")
    check_accessible(page)

    page.goto(f"{shown.url}#/street/camera/gate")
    page.reload()

    until(page, "document.querySelector('.overlays button')?.getAttribute('aria-pressed') === 'false'")


def test_several_pipelines_show_a_still_of_each_of_their_streams(shown: Listener, page: Page) -> None:
    page.route(
        "**/api/v1/pipelines",
        lambda route: route.fulfill(json=[{**one, "state": "running"} for one in route.fetch().json()]),
    )
    page.goto(f"{shown.url}?token={TOKEN}")

    page.wait_for_selector(".stills a:first-child img")
    names = "[...document.querySelectorAll('.still-name')].map((one) => one.innerText).join()"
    until(page, f"{names} === 'gate,yard,camera · lost'")
    wait_for_color(page, ".stills a:first-child", lambda color: is_near(color, RED))
    check_accessible(page)
    page.click(".stills a:first-child")
    page.wait_for_selector(".camera")


def test_streams_appear_and_leave(page: Page) -> None:
    pipeline = Pipeline(name="street", sources={"gate": endless()}, steps=["draw"])
    names = "[...document.querySelectorAll('.tile h2')].map((one) => one.textContent).join()"
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        page.goto(f"{listener.url}?token={TOKEN}")
        until(page, f"{names} === 'gate'")

        pipeline.add_source("yard", pipeline.description.sources["gate"]).wait()
        until(page, f"{names} === 'gate,yard'")
        until(page, f"{text_of(tile('yard') + ' .badge')} === 'live'")
        pipeline.remove_source("gate").wait()
        until(page, f"{names} === 'yard'")


def test_a_lost_camera_turns_grey_says_why_and_comes_back(page: Page, tmp_path: Path) -> None:
    clip = noise_clip(tmp_path).at_fps(10)
    with FakeCamera(clip) as camera:
        pipeline = Pipeline(name="street", sources={"gate": camera.url}, steps=["draw"])
        with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
            page.goto(f"{listener.url}?token={TOKEN}")
            page.wait_for_selector(f"{tile('gate')} .player[data-state=live]")
            until(page, f"{text_of(tile('gate') + ' .badge')} === 'live'")
            assert colorfulness(page) > 5

            camera.kill()
            until(page, f"{text_of(tile('gate') + ' .badge')} === 'lost'")
            assert "lost for" in page.locator(f"{tile('gate')} .away-note").inner_text()
            assert page.locator(f"{tile('gate')} .cause").inner_text()
            assert colorfulness(page) < 1

            camera.restart()
            until(page, f"{text_of(tile('gate') + ' .badge')} === 'live'")
            assert page.locator(f"{tile('gate')} .away-note").count() == 0
            assert colorfulness(page) > 5
            assert "1 reconnects" in page.locator(tile("gate")).inner_text()


def colorfulness(page: Page) -> float:
    """How far the view of the only tile is from grey: 0 when it has no colour at all."""
    shot = page.locator(f"{tile('gate')} .view").screenshot()
    image = np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"), np.int16)
    return float(np.mean(image.max(axis=2) - image.min(axis=2)))


def test_a_camera_that_falls_silent_is_grey_before_it_counts_as_stalled(page: Page, tmp_path: Path) -> None:
    with FakeCamera(noise_clip(tmp_path).at_fps(10)) as camera:
        source = {"uri": camera.url, "stall_timeout": "300s"}
        pipeline = Pipeline(name="street", sources={"gate": source}, steps=["draw"])
        with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
            page.goto(f"{listener.url}?token={TOKEN}")
            page.wait_for_selector(f"{tile('gate')} .player[data-state=live]")

            camera.faults.stall = True
            until(page, f"{text_of(tile('gate') + ' .badge')} === 'no frames'")
            assert colorfulness(page) < 1

            camera.faults.stall = False
            until(page, f"{text_of(tile('gate') + ' .badge')} === 'live'")


def test_changes_of_states_are_told_to_those_who_do_not_see_them(shown: Listener, page: Page) -> None:
    is_lost = False

    def answer(route: Route) -> None:
        status = route.fetch().json()
        streams = [{**one, "state": "lost"} if is_lost and one["name"] == "gate" else one for one in status["streams"]]
        route.fulfill(json={**status, "streams": streams})

    page.route(STATUS, answer)
    page.goto(f"{shown.url}?token={TOKEN}")
    until(page, f"{text_of(tile('gate') + ' .badge')} === 'live'")
    is_lost = True

    until(page, "[...document.querySelectorAll('[role=status]')].some((one) => one.textContent === 'gate: lost')")
