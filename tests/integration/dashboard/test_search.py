"""The search of the dashboard: words, tracks and images that look alike, and the moment of a track."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.integration.dashboard.browser import PHONE, check_accessible, until
from tests.integration.search.searched import ROAD, SEARCH, Searched, searched
from tests.integration.server.conftest import TOKEN

from sightline import Pipeline
from sightline.server import listen
from sightline.server.credentials import Role

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

TRACKS = ".tracks .track"
SHOWN = f"[...document.querySelectorAll('{TRACKS}')].map((one) => Number(one.dataset.track))"
HOSTILE = "<img src=x onerror='window.pwned = 1'>"


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searched]:
    """A clip that was indexed, recorded, and crossed a line."""
    folder = tmp_path_factory.mktemp("town")
    steps = [{"lines": ROAD}, {"record": {"path": "{stream}-{time}.mp4", "segment": "60s"}}]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SIGHTLINE_TOKEN", raising=False)
        patch.setenv("SIGHTLINE_TOKENS", str(folder / "access" / "tokens.json"))
        with searched(folder, steps=steps) as town:
            yield town


def show(page: Page, town: Searched, where: str = "", *, role: Role = Role.OPERATOR) -> None:
    page.goto(f"{town.url}?token={town.tokens[role]}#/town/search{where}")


def test_words_find_tracks_with_images_and_a_link_is_a_search(town: Searched, page: Page) -> None:
    show(page, town)
    page.wait_for_selector(TRACKS)
    page.keyboard.press("/")
    page.keyboard.type("red car at the street")
    page.keyboard.press("Enter")

    until(page, "document.querySelector('#told')?.textContent.startsWith('Understood: stream street; label car')")
    expected = [one["id"] for one in town.found("text=red%20car%20at%20the%20street&limit=24")["tracks"]]
    until(page, f"JSON.stringify({SHOWN}) === '{json.dumps(expected, separators=(',', ':'))}'")
    until(page, f"document.querySelector('{TRACKS} img')?.naturalWidth > 0")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    until(page, f"JSON.stringify({SHOWN}) === '{json.dumps(expected, separators=(',', ':'))}'")


def test_more_like_a_track_and_like_an_image(town: Searched, page: Page) -> None:
    show(page, town, "?text=car")
    until(page, "document.querySelector('#told')?.textContent.startsWith('Understood')")
    first = page.evaluate(SHOWN)[0]
    jpeg = town.viewer.ask(f"{SEARCH}/tracks/{first}/image.jpg").body
    page.locator(f"{TRACKS} button").first.click()

    until(page, "document.querySelector('#told').textContent.startsWith('Tracks that look like the chosen one')")
    alike = [one["id"] for one in town.found(f"like={first}&limit=24")["tracks"]]
    until(page, f"JSON.stringify({SHOWN}) === '{json.dumps(alike, separators=(',', ':'))}'")
    page.set_input_files("input[type=file]", {"name": "one.jpg", "mimeType": "image/jpeg", "buffer": jpeg})
    until(page, "document.querySelector('#told').textContent.startsWith('Tracks that look like the image one.jpg')")
    until(page, f"{SHOWN}[0] === {first}")


def test_a_track_leads_to_its_recording_and_events_by_keys_alone(town: Searched, page: Page) -> None:
    events = town.viewer.ask("/api/v1/pipelines/town/history/records?type=event").json()["records"]
    crossing = next(one for one in events if one["event"]["kind"] == "line")
    found = town.found("limit=24")["tracks"]
    place = next(at for at, one in enumerate(found) if one["track_id"] == crossing["event"]["track_id"])
    show(page, town)
    page.wait_for_selector(TRACKS)
    page.locator(f"{TRACKS} a.opens").first.focus()
    for _ in range(place):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")

    page.wait_for_selector(f".track-details[data-track='{found[place]['id']}'] video")
    until(page, "document.querySelector('.track-details video').readyState >= 1")
    assert page.locator(f".track-details a[href='#/town/events/{crossing['id']}']").count() == 1
    check_accessible(page)
    page.keyboard.press("Escape")
    until(page, "!document.querySelector('.track-details') && location.hash === '#/town/search'")


def test_nothing_found_and_mistakes_are_said(town: Searched, page: Page) -> None:
    show(page, town, "?stream=nowhere")
    page.wait_for_selector(".empty:has-text('No track fits')")
    page.fill("input[name=text]", "car at 25:00")
    page.keyboard.press("Enter")
    page.wait_for_selector(".alarm:has-text('no time of day')")
    large = bytes((1 << 20) + 1)
    page.set_input_files("input[type=file]", {"name": "one.png", "mimeType": "image/png", "buffer": large})
    page.wait_for_selector(".alarm:has-text('more than 1 MiB')")


def test_a_viewer_with_a_phone_sees_hostile_texts_as_text(town: Searched, page: Page) -> None:
    def answer(route: Route) -> None:
        found = route.fetch().json()
        for track in found["tracks"]:
            track |= {"label": HOSTILE, "stream": HOSTILE, "attributes": {"text": HOSTILE}, "image": None}
        route.fulfill(json=found | {"images_withheld": True, "without_time": 3})

    page.route("**/town/search?*", answer)
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    show(page, town, "?text=car", role=Role.VIEWER)
    page.wait_for_selector(TRACKS)

    assert page.locator("input[type=file]").count() == 0  # an image needs an operator
    assert HOSTILE in page.locator(TRACKS).first.inner_text()
    assert page.evaluate("window.pwned") is None
    assert "Images are withheld" in page.locator(".search-told").inner_text()
    assert "3 tracks were left out" in page.locator(".search-told").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    check_accessible(page)


def test_a_pipeline_without_an_index_says_what_to_add(page: Page) -> None:
    with listen(Pipeline(name="town", sources={"a": {"pattern": "bars"}}), "127.0.0.1:0", token=TOKEN) as listener:
        page.goto(f"{listener.url}?token={TOKEN}#/town/search")

        page.wait_for_selector(".empty:has-text('search_index')")
