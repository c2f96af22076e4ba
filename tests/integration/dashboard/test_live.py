"""The player: what it shows, by each way to decode, and when it does not stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.dashboard.browser import check_accessible, until
from tests.integration.server.conftest import TOKEN, endless

from sightline import Pipeline
from sightline.server import Listener, listen

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDTH, HEIGHT = 320, 240
MOUNT = """async ([name, width, height]) => {
  const { Player } = await import("/dashboard/parts/player.js");
  const { html, render } = await import("/dashboard/lib.js");
  const box = Object.assign(document.createElement("div"), { id: "stage" });
  Object.assign(box.style, { width: `${width}px`, height: `${height}px` });
  document.body.prepend(box);
  window.states = [];
  const { OVERLAYS } = await import("/dashboard/parts/player.js");
  const tell = (state) => window.states.push(state);
  window.overlay = (chosen) => render(
    html`<${Player} pipeline="street" stream=${name} overlays=${{ ...OVERLAYS, ...chosen }} onState=${tell} />`, box);
  window.overlay({});
}"""
PIXEL = """([x, y]) => {
  const canvas = document.querySelector("#stage canvas");
  const [at, down] = [Math.floor(x * canvas.width), Math.floor(y * canvas.height)];
  return [...canvas.getContext("2d").getImageData(at, down, 1, 1).data.slice(0, 3)];
}"""
BOX = (80, 60, 160, 120)
HOSTILE = "<img src=x onerror='window.pwned = 1'>"
LINES = """window.lines = [];
  window.WebSocket = class extends WebSocket { constructor(url) { super(url); window.lines.push(this); } };"""
"""Remember the connections of the page."""
WITHOUT = {
    "webcodecs": "",
    "mse": "delete window.VideoDecoder;",
    "jpeg": "delete window.VideoDecoder; delete window.MediaSource;",
}


@pytest.fixture(scope="module")
def shown() -> Iterator[Listener]:
    """A stream of one colour, and one of another."""
    sources: dict[str, Any] = {
        "red": endless(pattern="solid", color=[200, 40, 40]),
        "green": endless(pattern="solid", color=[40, 160, 40]),
    }
    pipeline = Pipeline(name="street", sources=sources, steps=[])
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        yield listener


def play(page: Page, shown: Listener, stream: str, *, without: str = "") -> None:
    """Put a player onto the page."""
    if without:
        page.add_init_script(without)
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector("#summary")
    page.evaluate(MOUNT, [stream, WIDTH, HEIGHT])


def pixel(page: Page, x: float, y: float) -> list[int]:
    """The colour of the canvas at a place, in shares of its size."""
    found: list[int] = page.evaluate(PIXEL, [x, y])
    return found


@pytest.mark.parametrize("mode", list(WITHOUT))
def test_the_image_reaches_the_canvas_by_each_way_to_decode(shown: Listener, page: Page, mode: str) -> None:
    play(page, shown, "red", without=WITHOUT[mode])

    until(page, "window.states.at(-1)?.state === 'live'")
    assert page.evaluate("window.states.at(-1).mode") == mode
    assert pixel(page, 0.5, 0.5) == pytest.approx([200, 40, 40], abs=12)
    check_accessible(page)


def test_a_player_out_of_sight_does_not_stream_and_goes_on_when_it_is_seen(shown: Listener, page: Page) -> None:
    page.add_init_script(LINES)
    play(page, shown, "green")
    until(page, "window.states.at(-1)?.state === 'live'")

    page.evaluate("document.getElementById('stage').style.marginTop = '-9999px'")
    until(page, "window.states.at(-1).state === 'paused'")
    until(page, "window.lines.every((line) => line.readyState === WebSocket.CLOSED)")

    page.evaluate("document.getElementById('stage').style.marginTop = '0'")
    until(page, "window.states.at(-1).state === 'live'")


def test_a_connection_that_breaks_off_comes_back(shown: Listener, page: Page) -> None:
    page.add_init_script(LINES)
    play(page, shown, "green")
    until(page, "window.states.at(-1)?.state === 'live'")

    page.evaluate("window.lines.at(-1).close()")

    until(page, "window.lines.length > 1 && window.states.at(-1).state === 'live'")


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Listener, Pipeline]]:
    """A black image with a box at a known place on every frame, and a zone."""
    path = tmp_path_factory.mktemp("live") / "boxes.mot.txt"
    left, top, right, bottom = BOX
    lines = [f"{frame},7,{left},{top},{right - left},{bottom - top},1,1,1" for frame in range(1, 5_001)]
    path.write_text("\n".join(lines) + "\n")
    steps: list[Any] = [
        {"replay": {"path": str(path), "format": "mot", "label": HOSTILE}},
        "track",
        {"zones": {HOSTILE: {"polygon": [[0.7, 0.1], [0.9, 0.1], [0.9, 0.9], [0.7, 0.9]]}}},
    ]
    source = endless(pattern="solid", color=[0, 0, 0], size=[WIDTH, HEIGHT])
    pipeline = Pipeline(name="street", sources={"gate": source}, steps=steps)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        yield listener, pipeline


def test_boxes_and_zones_are_where_they_were_found_and_can_be_switched_off(
    tracked: tuple[Listener, Pipeline], page: Page
) -> None:
    play(page, tracked[0], "gate")
    until(page, "window.states.at(-1)?.state === 'live'")

    left_edge = pixel(page, BOX[0] / WIDTH, 90 / HEIGHT)
    assert max(left_edge) > 90
    assert max(pixel(page, 120 / WIDTH, 90 / HEIGHT)) < 20
    red, green, blue = pixel(page, 0.8, 0.8)
    assert blue > green > red
    assert page.evaluate("window.states.at(-1).counts") == {HOSTILE: 1}
    assert page.evaluate("window.pwned") is None

    page.evaluate("window.overlay({ zones: false, counts: false })")
    until(page, f"({PIXEL})([0.8, 0.8]).every((value) => value < 20)")


def test_a_slow_page_loses_frames_and_the_pipeline_none(tracked: tuple[Listener, Pipeline], page: Page) -> None:
    play(page, tracked[0], "gate")
    until(page, "window.states.at(-1)?.state === 'live'")
    before = tracked[1].status()[0].processed

    page.evaluate("() => { const until = performance.now() + 4000; while (performance.now() < until); }")

    assert tracked[1].status()[0].processed - before > 20, "of 40 frames in 4 seconds"
    until(page, "window.states.at(-1).state === 'live' && window.states.at(-1).behindMs < 1000")


def test_attributes_are_told_as_drawing_tells_them(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")
    known = {"color": "red", "color_confidence": 0.98306745, "speed": 42.123456, "parked": True, "x_confidence": 0.5}

    told = page.evaluate(
        "async (known) => (await import('/dashboard/live/overlay.js')).attributeTexts(known)",
        known,
    )

    assert told == ["red", "speed 42.1", "x_confidence 0.5"]
