"""The screen of one camera: what it shows and counts, what it has done, and how it is steered."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from tests.integration.camera.clips import noise_clip
from tests.integration.dashboard.browser import PHONE, check_accessible, until
from tests.integration.server.conftest import TOKEN, ask, endless, wait_for

from sightline import Pipeline
from sightline.server import Listener, listen
from sightline.server.credentials import Role, TokenFile
from sightline_plugins.commands.camera.server import FakeCamera

if TYPE_CHECKING:
    from playwright.sync_api import Page

API = "/api/v1/pipelines/street"
SWINGS, FRAMES = 25, 20_000
BADGE = "document.querySelector('.camera-head .badge')?.textContent"


def write_swinging(path: Path) -> None:
    """Recorded detections of one object that crosses the middle of the image every second, there and back."""
    lines = []
    for frame in range(1, FRAMES + 1):
        swing, phase = divmod(frame, SWINGS)
        share = phase / SWINGS
        x = 4 + 48 * (share if swing % 2 == 0 else 1 - share)
        lines.append(f"{frame},1,{x:.1f},16,8,16,1,1,1")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    """Three streams; on each something crosses a line every second."""
    folder = tmp_path_factory.mktemp("camera")
    write_swinging(folder / "swing.mot.txt")
    sources: dict[str, Mapping[str, object]] = {
        "gate": endless(pattern="solid", color=[200, 40, 40], fps=25),
        "yard": endless(pattern="bars", fps=25),
        "camera": {"uri": "rtsp://admin:hunter2@127.0.0.1:9/main"},
    }
    steps: list[str | Mapping[str, object]] = [
        {"replay": {"path": str(folder / "swing.mot.txt"), "format": "mot", "label": "person", "ids": True}},
        {"lines": {"middle": {"from": [0.5, 0.1], "to": [0.5, 0.9], "anchor": "center"}}},
        "draw",
    ]
    pipeline = Pipeline(name="street", sources=sources, steps=steps, outputs=folder)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        yield listener


def open_camera(page: Page, listener: Listener, name: str) -> None:
    page.goto(f"{listener.url}?token={TOKEN}")
    # Not by the mouse: tiles change places while streams become live.
    page.dispatch_event(f'.tile[data-stream="{name}"] .view', "click")
    page.wait_for_selector(".camera")


def test_a_tile_leads_to_its_camera_with_image_counts_and_events(shown: Listener, page: Page) -> None:
    open_camera(page, shown, "gate")

    assert page.locator("h1").inner_text() == "gate"
    until(page, f"{BADGE} === 'live'")
    until(page, "document.querySelector('.big [data-label=person] dd')?.textContent === '1'")
    until(page, "parseInt(document.querySelector('.rules [data-rule=middle] dd')?.textContent.replace(/\\D+/, '')) > 0")
    until(page, "document.querySelector('.newest .event')?.textContent.includes('person crossed middle')")
    until(page, "parseFloat(document.querySelector('.facts [data-of=rate] dd').textContent) > 5")
    page.wait_for_selector(".camera .player[data-state=live]")
    assert page.locator("nav a[aria-current=page]").inner_text() == "Live"
    check_accessible(page)


def test_events_come_as_they_happen(shown: Listener, page: Page) -> None:
    open_camera(page, shown, "gate")
    page.wait_for_selector(".newest .event")
    before = page.evaluate("performance.now()")
    page.evaluate("document.querySelectorAll('.newest li').forEach((one) => one.setAttribute('data-seen', ''))")

    until(page, "document.querySelector('.newest li:first-child:not([data-seen])')")
    assert page.evaluate("performance.now()") > before
    times = page.locator(".newest time").evaluate_all("(all) => all.map((one) => one.getAttribute('datetime'))")
    assert times == sorted(times, reverse=True)


def test_a_lost_camera_says_why_and_where_it_is(shown: Listener, page: Page) -> None:
    open_camera(page, shown, "camera")

    until(page, f"{BADGE} === 'lost'")
    until(page, "document.querySelector('.camera .cause')?.textContent.includes('refused')")
    until(page, "document.querySelector('.facts [data-of=source] dd')?.textContent.includes('127.0.0.1:9')")
    assert "hunter2" not in page.content()


def test_arrow_keys_go_to_the_cameras_beside(shown: Listener, page: Page) -> None:
    open_camera(page, shown, "gate")
    until(page, f"{BADGE} === 'live'")

    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('h1').textContent === 'yard'")
    page.keyboard.press("ArrowLeft")
    until(page, "document.querySelector('h1').textContent === 'gate'")
    page.keyboard.press("ArrowLeft")
    until(page, "document.querySelector('h1').textContent === 'camera'")
    page.click("text=‹ All cameras")
    page.wait_for_selector(".tile")


def test_a_moment_of_the_timeline_is_picked_and_shows_its_events(shown: Listener, page: Page) -> None:
    wait_for(lambda: _has_events(shown), seconds=300)
    open_camera(page, shown, "gate")
    page.wait_for_selector(".track .bar-event")
    page.wait_for_selector(".track .band.good")

    page.focus(".track")
    page.keyboard.press("End")
    page.click("text=‹ Previous event")
    until(page, "document.querySelector('.moment .event')?.textContent.includes('person crossed middle')")
    assert page.locator("h1").inner_text() == "gate"
    chosen = page.locator(".track").get_attribute("aria-valuenow")
    page.focus(".track")
    page.keyboard.press("ArrowLeft")
    until(page, f"document.querySelector('.track').getAttribute('aria-valuenow') === '{int(chosen or 0) - 1}'")
    check_accessible(page)


def _has_events(listener: Listener) -> bool:
    """Whether the history has its first sample of events; it takes one every ten seconds."""
    table = ask(listener.port, f"{API}/history?series=events&stream=gate", token=TOKEN).json()
    return any(value for column in table["columns"] for value in column["values"])


def test_the_band_tells_times_of_trouble_from_those_that_are_not_known(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}")
    page.wait_for_selector("#summary")
    past = {
        "times": [100, 110, 120, 130],
        "step": 10,
        "frames": [None, 25, 10, 25],
        "changes": [{"at": 122, "state": "lost"}, {"at": 127, "state": "live"}],
        "to": 140,
    }

    spans: Any = page.evaluate(
        f"import('/dashboard/parts/camera-timeline.js').then((module) => module.spansOf({json.dumps(past)}))"
    )

    assert [(span["from"], span["to"], span["kind"]) for span in spans] == [
        (110, 122, "good"),
        (122, 127, "bad"),
        (127, 140, "good"),
    ]


def test_a_stream_is_paused_and_resumed(shown: Listener, page: Page) -> None:
    open_camera(page, shown, "yard")
    until(page, f"{BADGE} === 'live'")

    page.click("#pause")
    until(page, f"{BADGE} === 'paused'")
    until(page, "document.querySelector('#pause').textContent === 'Resume'")
    page.click("#pause")
    until(page, f"{BADGE} === 'live'")


def test_a_snapshot_is_kept_as_a_file_in_full_size(shown: Listener, page: Page) -> None:
    open_camera(page, shown, "gate")
    until(page, f"{BADGE} === 'live'")

    with page.expect_download() as download:
        page.click("#snapshot")

    assert download.value.suggested_filename.startswith("gate-")
    image = Image.open(io.BytesIO(Path(download.value.path()).read_bytes())).convert("RGB")
    assert image.size == (64, 48)
    assert image.getpixel((60, 4))[0] > 150  # type: ignore[index]


def test_who_may_only_look_cannot_steer(shown: Listener, page: Page) -> None:
    del shown
    tokens = TokenFile()
    token = tokens.add("onlooker", Role.VIEWER)
    pipeline = Pipeline(name="street", sources={"gate": endless()}, steps=["draw"])
    with listen(pipeline, "127.0.0.1:0") as listener, pipeline:
        page.goto(f"{listener.url}?token={token}#/street/camera/gate")
        page.wait_for_selector("#pause")
        assert [page.locator(one).is_disabled() for one in ("#pause", "#record", "#snapshot")] == [True] * 3
        assert page.locator("#pause").get_attribute("title") == "This needs the role operator."
    tokens.remove("onlooker")


def test_a_recording_is_asked_for_and_played(page: Page, tmp_path: Path) -> None:
    record = {"record": {"path": "clips/{stream}-{time}.mp4"}}
    with FakeCamera(noise_clip(tmp_path).at_fps(10)) as camera:
        pipeline = Pipeline(name="street", sources={"gate": camera.url}, steps=[record], outputs=tmp_path)
        with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
            page.goto(f"{listener.url}?token={TOKEN}#/street/camera/gate")
            until(page, f"{BADGE} === 'live' && document.querySelector('#record')?.disabled === false")
            page.select_option("select[aria-label='How long to record']", "10")
            page.click("#record")

            until(page, "document.querySelector('.notice')?.textContent.includes('Recording for 10 s')")
            wait_for(lambda: list(tmp_path.glob("clips/gate-*")), seconds=300)

            page.wait_for_selector(".track .recorded", state="attached")
            page.locator(".track .recorded").first.click(force=True, position={"x": 1, "y": 1})
            until(page, "document.querySelector('.moment video')?.readyState >= 2")
            until(page, "document.querySelector('.moment video').currentTime > 0.2")
            assert page.locator(".moment .download").get_attribute("download", timeout=0)
            check_accessible(page)


def test_a_camera_that_is_not_there_is_told(shown: Listener, page: Page) -> None:
    page.goto(f"{shown.url}?token={TOKEN}#/street/camera/nowhere")

    until(page, "document.querySelector('main [role=alert]')?.textContent.includes('There is no stream nowhere.')")


def test_a_phone_shows_it_without_scrolling_sideways(shown: Listener, page: Page) -> None:
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    page.goto(f"{shown.url}?token={TOKEN}#/street/camera/gate")
    page.wait_for_selector(".track")

    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
