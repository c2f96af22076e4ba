"""The events of the dashboard: timeline, cards, filters, details, and clips that play."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.dashboard.browser import PHONE, check_accessible, until
from tests.integration.server.conftest import TOKEN, ask, wait_for

from sightline import Pipeline
from sightline.server import listen

if TYPE_CHECKING:
    from playwright.sync_api import Page

API = "/api/v1/pipelines/town"
CARDS = ".event-card"
HOSTILE = "<img src=x onerror=alert(1)>"
STEPS: list[Any] = [
    {"replay": {"path": "sample_videos/street.mot.txt", "ids": True, "label": HOSTILE}},
    {"lines": {"road": {"from": [0.18, 0.62], "to": [0.82, 0.58], "severity": "high"}}},
    {"zones": {"plaza": {"polygon": [[0.2, 0.4], [0.8, 0.4], [0.8, 0.95], [0.2, 0.95]]}}},
    {"record": {"path": "{stream}-{time}.mp4", "before": "1s", "after": "1s", "on": ["lines.road", "zones.plaza"]}},
]


@dataclass(frozen=True, slots=True)
class Town:
    """A server whose pipeline has run to the end of two clips."""

    url: str
    port: int
    pipeline: Pipeline

    def found(self, **query: str) -> list[dict[str, Any]]:
        """The events that the API finds, newest first."""
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        answer = ask(self.port, f"{API}/history/records?type=event&order=newest&limit=1000&{asked}", token=TOKEN)
        return list(answer.json()["records"])

    def open(self, page: Page, where: str = "") -> None:
        page.goto(f"{self.url}?token={TOKEN}#/town/events{where}")


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("town")
    clip: dict[str, Any] = {"uri": "sample_videos/street.mp4", "realtime": True}
    sources = {"street": {**clip, "duration": "7s"}, "lane": {**clip, "duration": "4s"}}
    pipeline = Pipeline(name="town", sources=sources, steps=STEPS, outputs=folder)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener:
        pipeline.run()
        town = Town(listener.url, listener.port, pipeline)
        wait_for(lambda: len(town.found()) > 12)
        wait_for(lambda: ask(town.port, f"{API}/recordings", token=TOKEN).json())
        yield town


def test_events_are_cards_with_images_newest_first(town: Town, page: Page) -> None:
    town.open(page)
    page.wait_for_selector(CARDS)
    expected = town.found()

    shown = page.evaluate(f"[...document.querySelectorAll('{CARDS}')].map((one) => one.dataset.event)")
    assert shown == [one["id"] for one in expected][: len(shown)]
    until(page, f"[...document.querySelectorAll('{CARDS} img')].some((one) => one.naturalWidth === 640)")
    assert page.locator("#found").inner_text() == f"{len(expected)} events"
    assert page.evaluate(f"document.querySelectorAll('{CARDS} img[src=x]').length") == 0
    assert HOSTILE in page.locator(CARDS).first.inner_text()
    severities = page.evaluate(
        f"[...document.querySelectorAll('{CARDS}')].map((one) => one.querySelector('.badge')?.textContent)"
    )
    assert severities == [one["event"].get("severity") for one in expected][: len(shown)]
    check_accessible(page)


def test_the_timeline_shows_when_and_where(town: Town, page: Page) -> None:
    town.open(page)
    until(page, "document.querySelector('#found')?.textContent.includes('events')")

    painted = """(name) => {
        const canvas = document.querySelector(`.lane[data-stream=${name}] canvas`);
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        for (let at = 3; at < data.length; at += 4) count += data[at] > 0;
        return count;
    }"""
    wait_for(lambda: page.evaluate(painted, "street") > 100)
    before = page.evaluate(painted, "street")
    page.keyboard.press("Tab")
    page.focus(".timeline")
    page.keyboard.press("+")

    until(page, "location.hash.includes('from=')")
    wait_for(lambda: page.evaluate(painted, "street") != before)
    page.click("button:has-text('Now')")
    until(page, "!location.hash.includes('from=')")


def test_a_span_is_picked_by_dragging(town: Town, page: Page) -> None:
    town.open(page)
    page.wait_for_selector(CARDS)
    box = page.locator(".lane[data-stream=street] canvas").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 5, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 8, y, steps=3)
    page.mouse.up()

    until(page, "document.querySelector('.found .empty')?.textContent.startsWith('No event')")
    until(page, "document.querySelector('#found').textContent === '0 events'")


def test_filters_are_in_the_address_and_a_link_is_a_search(town: Town, page: Page) -> None:
    town.open(page)
    page.wait_for_selector(CARDS)
    page.select_option("select[name=stream]", "lane")
    page.select_option("select[name=rule]", "plaza")
    page.fill("input[name=attribute]", "direction=enter")
    expected = len(town.found(stream="lane", rule="plaza", attribute="direction=enter"))

    until(page, "location.hash.includes('attribute=direction%3Denter')")
    until(page, f"document.querySelectorAll('{CARDS}').length === {expected}")
    assert 0 < expected < len(town.found())
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    until(page, f"document.querySelectorAll('{CARDS}').length === {expected}")
    page.fill("input[type=search][name=text]", "zeppelin")
    page.wait_for_selector(".found .empty")


def test_an_event_tells_why_with_its_path_on_the_image(town: Town, page: Page) -> None:
    event = next(one for one in town.found(rule="road") if _details(town, one)["crop"])
    town.open(page, f"/{event['id']}")
    page.wait_for_selector(".scene svg .way")
    until(page, "document.querySelector('.scene img')?.naturalWidth > 0")

    details = _details(town, event)
    ends = page.evaluate("""(() => {
        const svg = document.querySelector(".scene svg").viewBox.baseVal;
        const points = document.querySelector(".scene .way").points;
        const one = (at) => [points[at].x / svg.width, points[at].y / svg.height];
        return [one(0), one(points.length - 1)];
    })()""")
    assert ends == [pytest.approx(details["scene"]["path"][at][1:], abs=1e-3) for at in (0, -1)]
    assert "crossed road of lines-1" in page.locator(".why").inner_text()
    assert page.locator(".scene .rule").count() == 1
    check_accessible(page)
    page.locator(".event-side summary").click()
    assert json.loads(page.locator(".raw").inner_text()) == details["record"]


def _details(town: Town, event: dict[str, Any]) -> dict[str, Any]:
    return dict(ask(town.port, f"{API}/events/{event['id']}", token=TOKEN).json())


def test_the_clip_of_an_event_plays_and_steps(town: Town, page: Page) -> None:
    town.open(page)
    page.locator(CARDS).nth(3).click()
    page.click(".event-details button:has-text('Clip')")
    until(page, "document.querySelector('video')?.readyState >= 2")
    started = page.evaluate("document.querySelector('video').currentTime")
    until(page, f"document.querySelector('video').currentTime > {started} + 0.2")

    page.click("button:has-text('To the event')")
    until(page, "document.querySelector('video').paused && !document.querySelector('video').seeking")
    offset = _details(town, town.found()[3])["clips"][0]["offset_seconds"]
    at = page.evaluate("document.querySelector('video').currentTime")
    assert at == pytest.approx(offset, abs=0.05)
    page.click("button[aria-label^='One frame on']")
    until(page, f"Math.abs(document.querySelector('video').currentTime - {at} - 0.04) < 0.015")
    until(page, "!document.querySelector('video').seeking")
    brightness = page.evaluate("""(() => {
        const canvas = Object.assign(document.createElement("canvas"), {width: 64, height: 36});
        const brush = canvas.getContext("2d");
        brush.drawImage(document.querySelector("video"), 0, 0, 64, 36);
        const values = [...brush.getImageData(0, 0, 64, 36).data].filter((_, at) => at % 4 < 3);
        return [Math.min(...values), Math.max(...values)];
    })()""")
    assert brightness[1] - brightness[0] > 100
    check_accessible(page)


def test_keys_lead_to_the_neighbours_and_back(town: Town, page: Page) -> None:
    first, second, *_ = town.found()
    town.open(page)
    page.locator(CARDS).first.click()
    page.wait_for_selector(f".event-details[data-event='{first['id']}']")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f".event-details[data-event='{second['id']}']")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(f".event-details[data-event='{first['id']}']")
    page.keyboard.press("Escape")

    until(page, "!document.querySelector('.event-details')")
    assert page.url.endswith("#/town/events")


@pytest.mark.parametrize("kind", ["CSV", "JSON lines"])
def test_what_is_found_is_exported(town: Town, page: Page, kind: str) -> None:
    town.open(page, "?rule=road")
    page.wait_for_selector(CARDS)
    with page.expect_download() as download:
        page.click(f"button:has-text('{kind}')")
    text = Path(download.value.path()).read_text()

    rows = (
        [json.loads(line)["id"] for line in text.splitlines()]
        if kind == "JSON lines"
        else [row["id"] for row in csv.DictReader(io.StringIO(text))]
    )
    assert rows == [one["id"] for one in town.found(rule="road")]


def test_a_phone_shows_events_without_scrolling_sideways(town: Town, page: Page) -> None:
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    town.open(page)
    page.wait_for_selector(CARDS)

    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    check_accessible(page)


def test_new_events_are_announced_and_do_not_push_the_list(town: Town, page: Page) -> None:
    town.open(page)
    page.wait_for_selector(CARDS)
    before = page.evaluate(f"document.querySelector('{CARDS}').dataset.event")
    town.pipeline.run(frames=60)

    page.wait_for_selector(".fresh button")
    assert "new event" in page.locator(".fresh button").inner_text()
    assert page.evaluate(f"document.querySelector('{CARDS}').dataset.event") == before

    def shows_the_newest() -> bool:
        if page.is_visible(".fresh button"):
            page.click(".fresh button")
        shown = page.evaluate(f"document.querySelector('{CARDS}').dataset.event")
        return bool(shown == town.found()[0]["id"])

    wait_for(shows_the_newest)
    assert before != town.found()[0]["id"]
