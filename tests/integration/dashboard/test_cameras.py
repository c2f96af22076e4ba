"""The cameras in a browser: a test image before one is added, then its live images; edit, pause, remove."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fakes.onvif import FakeOnvifCamera
from tests.integration.dashboard.browser import PHONE, check_accessible, until
from tests.integration.server.conftest import TOKEN

from sightline import Pipeline
from sightline.server import Listener, listen
from sightline.server.policy import Policy
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

CLIP = Path(__file__).resolve().parents[3] / "sample_videos" / "gate.mp4"
FILE = """\
name: street
sources:
  still: {pattern: solid, size: [64, 48], frames: null, realtime: true, fps: 5}  # for tests
keep_running: true
pipeline: [draw]
"""


@pytest.fixture(scope="module")
def camera() -> Iterator[FakeCamera]:
    with FakeCamera(load_clip(str(CLIP)), credentials="admin:hunter2") as camera:
        yield camera


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cameras") / "street.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture(scope="module")
def served(file: Path) -> Iterator[Listener]:
    pipeline = Pipeline.from_yaml(file, outputs=file.parent / "out")
    policy = Policy(networks=("127.0.0.0/8",))
    with listen(pipeline, "127.0.0.1:0", token=TOKEN, policy=policy) as listener, pipeline:
        yield listener


def show(page: Page, served: Listener, screen: str) -> None:
    page.goto(f"{served.url}?token={TOKEN}")
    page.wait_for_selector("#summary")
    page.goto(f"{served.url}#/street/{screen}")


def field(label: str, kind: str = "input") -> str:
    """The input with a label."""
    return f"label:has(> span:text-is('{label}')) {kind}"


def colours(page: Page, image: str) -> int:
    """How many of some pixels of an image differ from the first one."""
    return int(
        page.evaluate(f"""() => {{
          const image = document.querySelector("{image}");
          const canvas = Object.assign(document.createElement("canvas"), {{ width: 16, height: 9 }});
          const pen = canvas.getContext("2d");
          pen.drawImage(image, 0, 0, 16, 9);
          const {{ data }} = pen.getImageData(0, 0, 16, 9);
          return Array.from(data).filter((value, at) => at % 4 !== 3 && Math.abs(value - data[at % 4]) > 20).length;
        }}""")
    )


def test_a_camera_is_looked_at_added_streams_and_is_saved(
    served: Listener, page: Page, camera: FakeCamera, file: Path
) -> None:
    show(page, served, "cameras")
    page.wait_for_selector("[data-stream=still]")
    check_accessible(page)
    page.click("text=Add a camera")
    page.fill("input[required]", "north")
    page.fill("input[inputmode=url]", camera.login_url.replace("hunter2", "guess"))
    page.click("text=Try it")
    page.wait_for_selector("text=Wrong user or password")

    page.fill("input[inputmode=url]", camera.login_url)
    page.click("text=Try it")
    page.wait_for_selector("img.test-image")
    until(page, "document.querySelector('img.test-image').naturalWidth > 0")
    assert colours(page, "img.test-image") > 30
    assert "h264" in page.locator(".facts").inner_text()
    check_accessible(page)
    assert "north" not in file.read_text()
    page.click("button:text-is('Add')")

    until(page, "document.querySelector('[data-stream=north] .badge')?.textContent === 'live'")
    page.wait_for_selector("[data-stream=north] img")
    assert colours(page, "[data-stream=north] img") > 30
    assert "hunter2" not in page.content()
    until(page, "document.querySelector('.notice') !== null")
    text = file.read_text()
    assert "# for tests" in text
    assert "north:" in text


def test_an_address_that_is_refused_is_told_with_the_option(served: Listener, page: Page) -> None:
    show(page, served, "cameras/new")
    page.fill("input[required]", "metadata")
    page.fill("input[inputmode=url]", "rtsp://169.254.169.254/latest")

    page.click("text=Try it")

    page.wait_for_selector("main .alarm")
    assert "allow it with --allow-network" in page.locator("main .alarm").inner_text()


def test_the_address_is_made_of_its_parts_with_the_path_of_the_maker(served: Listener, page: Page) -> None:
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    show(page, served, "cameras/new")
    page.fill("input[required]", "parts")
    page.click("text=By parts")
    page.fill(field("Host"), "10.255.255.1")
    page.fill(field("User"), "me")
    page.fill(field("Password"), "a/b@c")
    page.select_option(field("Maker", "select"), "Hikvision")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    check_accessible(page)

    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(str((route.request.post_data_json or {})["uri"]))
        route.fulfill(json={"reason": "late", "message": "<b>too</b> late", "seconds": 1})

    page.route("**/sources/test", answer)
    page.click("text=Try it")

    page.wait_for_selector("text=<b>too</b> late")
    assert asked == ["rtsp://me:a%2Fb%40c@10.255.255.1/Streaming/Channels/101"]


def test_a_camera_is_found_on_the_network_and_asked_for_its_streams(
    served: Listener, page: Page, camera: FakeCamera
) -> None:
    with FakeOnvifCamera(camera.url, user="admin", password="hunter2"):
        show(page, served, "cameras/new")
        page.click("text=On the network")
        page.click("text=Find cameras")
        page.click("text=North gate")
        check_accessible(page)
        page.fill(field("User"), "admin")
        page.fill(field("Password"), "hunter2")
        page.click("text=Ask for its streams")
        page.click(".found b:text-is('Main')")

        assert page.input_value("input[required]") == "North-gate"
        assert page.input_value("input[inputmode=url]") == camera.login_url
        page.click("text=Try it")
        page.wait_for_selector("img.test-image")


def test_a_camera_is_edited_paused_and_removed(served: Listener, page: Page, camera: FakeCamera) -> None:
    show(page, served, "cameras")
    page.click("[aria-label='Pause still']")
    until(page, "document.querySelector('[data-stream=still] .badge').textContent === 'paused'")
    page.click("[aria-label='Resume still']")
    until(page, "document.querySelector('[data-stream=still] .badge').textContent === 'live'")

    page.goto(f"{served.url}#/street/cameras/new")
    page.fill("input[required]", "south")
    page.fill("input[inputmode=url]", camera.login_url)
    page.click("button:text-is('Add')")
    page.click("[aria-label='Edit south']")
    until(page, "document.querySelector('input[inputmode=url]')?.value.includes('***@')")
    page.click("summary")
    page.fill(field("At most frames a second"), "2")
    page.click("button:text-is('Replace')")
    page.wait_for_selector("[data-stream=south]")

    page.click("[aria-label='Remove south']")
    check_accessible(page)
    page.click("dialog button.danger")
    until(page, "document.querySelector('[data-stream=south]') === null")
