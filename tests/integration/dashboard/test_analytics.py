"""The screen Analytics: its numbers are those of the sample world, and what it saves can be opened."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import cv2
import numpy as np
import pytest
from tests.integration.dashboard.browser import PATIENCE_MS, PHONE, check_accessible, until
from tests.integration.server.conftest import TOKEN, ask, wait_for

from sightline import Pipeline
from sightline.graph import Outputs
from sightline.server import Listener, listen
from sightline.server.history_series import Sample, encode_sample
from sightline.server.history_store import HistoryStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TRUTH = json.loads(Path("sample_videos/street.truth.json").read_text())
BOXES = np.loadtxt("sample_videos/street.mot.txt", delimiter=",")
HOSTILE = "<img src=x onerror='window.pwned = 1'>"
LABELS = [HOSTILE if name == "van" else name for name in TRUTH["classes"]]
TRACKS = Counter(LABELS[int(number)] for number in dict(zip(BOXES[:, 1], BOXES[:, 7], strict=True)).values())
HISTORY = "/api/v1/pipelines/street/history"
INDIA = ZoneInfo("Asia/Kolkata")
"""Its days begin half an hour before an hour of UTC."""


def recording(folder: Path) -> Path:
    """The ground truth of the sample world as JSON lines, with the true tracks and classes."""
    lines = []
    for frame in range(TRUTH["frames"]):
        own = BOXES[BOXES[:, 0] == frame + 1]
        objects = [
            {"label": LABELS[int(one[7])], "class_id": int(one[7]), "confidence": 1.0, "track_id": int(one[1])}
            | {"box": [one[2], one[3], one[2] + one[4], one[3] + one[5]]}
            for one in own
        ]
        lines.append(json.dumps({"stream": "street", "frame": frame, "objects": objects}))
    path = folder / "truth.jsonl"
    path.write_text("\n".join(lines))
    return path


def yesterday() -> datetime:
    """The midnight in India with which yesterday began."""
    return datetime.now(INDIA).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)


def fill(path: Path, folder: Path) -> None:
    """Make a history of the camera `gate`, through the interface of the store: people who came in ten minutes."""

    def sample(at: datetime, people: int) -> tuple[int, str, int, bytes]:
        body = Sample(600.0, 6_000, {}, 10.0, 20.0, {}, {"person": people}, {}, {})
        return 600, "gate", int(at.timestamp()) * 1_000, encode_sample(body)

    begin = yesterday()
    store = HistoryStore(path, outputs=Outputs(folder))
    store.add(
        [
            sample(begin - timedelta(hours=9), 0),
            sample(begin - timedelta(hours=8), 0),
            sample(begin - timedelta(minutes=10), 25),
            sample(begin, 7),
            sample(begin + timedelta(minutes=50), 5),
            sample(begin + timedelta(hours=17), 16),
        ],
        [],
    )
    store.close()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    """A server that has seen the sample world once, and knows of yesterday."""
    folder = tmp_path_factory.mktemp("analytics")
    (folder / "out").mkdir()
    fill(folder / "out" / "street.history", folder)
    road, box = TRUTH["lines"][0], TRUTH["zones"][0]["polygon"]
    pipeline = Pipeline(
        name="street",
        sources={"street": "sample_videos/street.mp4", "gate": {"pattern": "solid", "frames": 3}},
        steps=[
            {"replay": {"path": str(recording(folder)), "ids": True, "streams": ["street"]}},
            {"lines": {"streams": ["street"], "road": {"from": road["from"], "to": road["to"], "margin": 0}}},
            {"zones": {"streams": ["street"], "gone": "0s", "box": {"polygon": box, "margin": 0}}},
        ],
        outputs=folder,
    )
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener:
        pipeline.run()
        wait_for(lambda: asked(listener, series="fps", stream="street")["columns"])
        yield listener


def asked(listener: Listener, part: str = "", **query: str) -> Any:
    parameters = "&".join(f"{key}={value}" for key, value in query.items())
    answer = ask(listener.port, f"{HISTORY}{part}?{parameters}", token=TOKEN)
    assert answer.status == 200, answer.text
    return answer.json()


def show(page: Page, listener: Listener, query: str = "span=hour&streams=street") -> None:
    page.goto(f"{listener.url}?token={TOKEN}")
    page.wait_for_selector("#summary")
    page.goto(f"{listener.url}#/street/analytics?{query}")
    until(page, "document.querySelectorAll('.analytics > .panel').length === 6")
    until(page, "document.querySelector('.analytics [aria-label=\"Heat map\"]')?.innerText.length > 60")


def table(page: Page, title: str) -> dict[str, float]:
    """The sums of the columns of a chart's table, as a person reads them."""
    rows = page.evaluate(
        "(title) => [...document.querySelectorAll(`.analytics > .panel[aria-label='${title}'] table tr`)]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))",
        title,
    )
    numbers = [[float(cell.replace(",", "")) if cell != "–" else 0 for cell in row[1:]] for row in rows[1:]]
    return {name: sum(row[place] for row in numbers) for place, name in enumerate(rows[0][1:])}


def tile(page: Page, name: str) -> list[str]:
    return page.locator(f"[data-tile={name}] dd").all_inner_texts()


def test_the_numbers_are_those_of_the_sample_world(shown: Listener, page: Page) -> None:
    show(page, shown)
    until(page, "document.querySelectorAll('.plot canvas').length === 4")

    assert table(page, "Objects by class") == TRACKS
    assert table(page, "Lines crossed") == TRUTH["totals"]["lines"]["road"]
    ended = [one["dwell_seconds"] for one in TRUTH["stays"] if one["leave"] is not None]
    assert table(page, "How long objects stayed") == {"box": len(ended)}
    assert tile(page, "objects") == [str(sum(TRACKS.values())), "nothing to compare with"]
    assert tile(page, "in")[0] == str(TRUTH["totals"]["lines"]["road"]["in"])
    assert tile(page, "stay")[0] == f"{sum(ended) / len(ended):.1f} s"
    (means,) = [one for one in asked(shown, series="occupancy", step="31d")["columns"] if one["stream"] == "street"]
    assert float(tile(page, "inside")[0]) == pytest.approx(max(filter(None, means["values"])), abs=0.1)
    assert page.evaluate("window.pwned") is None
    check_accessible(page)


def test_bars_are_drawn_in_their_colours(shown: Listener, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    show(page, shown)
    until(page, "document.querySelectorAll('.plot canvas').length === 4")

    until(page, "(" + COLOURS_OF + ")('Lines crossed').includes('88,166,232')")
    assert page.evaluate(f"({COLOURS_OF})('Lines crossed').includes('240,154,74')")


COLOURS_OF = """(title) => {
  const canvas = document.querySelector(`.panel[aria-label='${title}'] canvas`);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) seen.add(data.slice(at, at + 3).join());
  return [...seen];
}"""
HEAT = """() => {
  const canvas = document.querySelector(".heat canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return [...data].filter((_, at) => at % 4 === 3);
}"""


def test_the_heat_is_where_the_walkers_walk(shown: Listener, page: Page) -> None:
    show(page, shown, "span=hour&streams=street&labels=person")
    until(page, "document.querySelector('.heat canvas')?.width === 96")

    opaque = np.array(page.evaluate(HEAT)).reshape(54, 96)
    values = np.array(asked(shown, "/heatmap", stream="street", label="person")["values"]).reshape(54, 96)
    assert ((opaque > 0) == (values > 0)).all()
    assert opaque[np.unravel_index(values.argmax(), values.shape)] == opaque.max()
    people = BOXES[BOXES[:, 7] == LABELS.index("person")]
    x = (people[:, 2] + people[:, 4] / 2) / TRUTH["size"][0] * 96
    y = (people[:, 3] + people[:, 5]) / TRUTH["size"][1] * 54
    walked = np.zeros((54, 96), bool)
    walked[np.clip(y, 0, 53).astype(int), np.clip(x, 0, 95).astype(int)] = True
    assert not (opaque[~walked] > 0).any()

    page.click("text=Paths")
    until(page, "[...document.querySelectorAll('.scale')].at(-1).textContent.endsWith('tracks')")
    paths = np.array(page.evaluate(HEAT)).reshape(54, 96)
    assert (paths[values > 0] > 0).all()


def test_classes_are_chosen_by_keyboard_and_stay_in_the_address(shown: Listener, page: Page) -> None:
    show(page, shown)
    page.focus(".choice:has-text('Classes') summary")
    page.keyboard.press("Enter")
    page.get_by_label("bus", exact=True).press("Space")

    until(page, f"document.querySelector('[data-tile=objects] dd').textContent === '{TRACKS['bus']}'")
    assert "labels=bus" in page.url
    page.reload()
    until(page, f"document.querySelector('[data-tile=objects] dd')?.textContent === '{TRACKS['bus']}'")
    assert list(table(page, "Objects by class")) == ["bus"]


def test_days_and_hours_are_those_of_the_browser(shown: Listener, browser: Browser) -> None:
    context = browser.new_context(timezone_id=str(INDIA))
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    show(page, shown, "span=yesterday&streams=gate")
    until(page, "document.querySelector('[data-tile=objects] dd')?.textContent === '28'")
    until(page, "document.querySelector('[data-tile=objects] dd:last-child').textContent.startsWith('+12 %')")

    rows = page.evaluate(
        "[...document.querySelectorAll(\".panel[aria-label='Objects by class'] tbody tr\")]"
        ".map((row) => [row.cells[0].textContent.slice(-5), row.cells[1].textContent])"
    )
    assert [row for row in rows if row[1] not in ("–", "0")] == [["00:00", "12"], ["17:00", "16"]]
    day = yesterday().strftime("%a")
    page.wait_for_selector(f"td[title='{day} 00:00: 12']", state="attached")
    context.close()


def saved(page: Page, listener: Listener, folder: Path, kind: str) -> list[Path]:
    """What the buttons of all charts save: six files, because Chromium asks before a page saves more than ten."""
    show(page, listener)
    until(page, "document.querySelectorAll('.exports').length === 6")
    titles = page.evaluate(
        "[...document.querySelectorAll('.analytics > .panel')].map((one) => one.getAttribute('aria-label'))"
    )
    paths = []
    for title in titles:
        with page.expect_download() as download:
            page.click(f"[aria-label='Save {title} as {kind}']")
        paths.append(folder / f"{title}.{kind.lower()}")
        download.value.save_as(paths[-1])
    return paths


def test_each_is_saved_as_csv(shown: Listener, page: Page, tmp_path: Path) -> None:
    tables = {path.stem: path.read_text() for path in saved(page, shown, tmp_path, "CSV")}

    assert all(len(text.splitlines()) > 7 for text in tables.values())
    rows = list(csv.DictReader(tables["Objects by class"].splitlines()))
    assert {name: sum(int(row[name] or 0) for row in rows) for name in TRACKS} == TRACKS
    heat = [float(row["s"]) for row in csv.DictReader(tables["Heat map"].splitlines())]
    assert heat == pytest.approx(asked(shown, "/heatmap", stream="street")["values"], abs=1e-3)


def test_each_is_saved_as_png(shown: Listener, page: Page, tmp_path: Path) -> None:
    for path in saved(page, shown, tmp_path, "PNG"):
        image = cv2.imread(str(path))
        assert image is not None
        assert min(image.shape[:2]) > 150
        assert len(np.unique(image.reshape(-1, 3), axis=0)) > 20


def test_what_is_missing_is_told(shown: Listener, page: Page) -> None:
    show(page, shown, "span=hour&streams=street&labels=none&rules=none")

    until(page, "document.querySelectorAll('.analytics .empty').length === 6")
    text = page.locator(".analytics").inner_text()
    assert "a step track follows the detector" in text.replace("`", "")
    assert "draw one on the screen Zones" in text
    check_accessible(page)


def test_a_phone_shows_all_of_it_in_the_dark(shown: Listener, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    show(page, shown)
    until(page, "document.querySelectorAll('.plot canvas').length === 4")

    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    check_accessible(page)
