"""The graph of a pipeline: what each step costs, where frames wait, and which step keeps the others waiting."""

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
    from playwright.sync_api import Page

SLOW = """
import time

def slow(batch):
    time.sleep(0.1 * len(batch))
    return batch
"""
ROOT = Path(__file__).resolve().parents[3]
STREET = {"uri": str(ROOT / "sample_videos" / "street.mp4"), "loop": True, "realtime": True}
BOTTLENECK = "document.getElementById('bottleneck')?.textContent ?? ''"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    """A pipeline whose third step takes far too long, with a branch."""
    folder: Path = tmp_path_factory.mktemp("graph")
    (folder / "slow.py").write_text(SLOW)
    steps: list[str | dict[str, object]] = [
        {"detect": {"model": str(ROOT / "models" / "street.onnx"), "confidence": 0.4}},
        "track",
        {"apply": f"{folder}/slow.py:slow"},
        {"tee": {"archive": [{"jsonl": {"path": "{stream}.jsonl"}}]}},
        {"draw": {"labels": False}},
    ]
    pipeline = Pipeline(name="street", sources={"gate": STREET}, steps=steps, outputs=folder)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        yield listener


@pytest.fixture
def graph(shown: Listener, page: Page) -> Page:
    """The screen, with all steps."""
    page.goto(f"{shown.url}?token={TOKEN}#/street/graph")
    page.wait_for_selector("[data-box='step/jsonl-1']")
    return page


def test_the_bottleneck_is_marked_and_explained(graph: Page) -> None:
    until(graph, f"{BOTTLENECK}.includes('apply-1 is the bottleneck')")

    assert "The queue in front of it is full" in graph.locator("#bottleneck").inner_text()
    assert "bottleneck" in graph.locator("[data-box='step/apply-1']").inner_text()
    assert "bottleneck" not in graph.locator("[data-box='step/track-1']").inner_text()
    red = "getComputedStyle(document.querySelector('.graph-ways path.full')).stroke === 'rgb(179, 38, 30)'"
    until(graph, f"document.querySelector('.graph-ways path.full') && {red}")
    check_accessible(graph)


def test_steps_and_queues_are_read_as_tables(graph: Page) -> None:
    rows = "[...document.querySelectorAll('.panel[aria-label=\"{}\"] tbody tr')].map((row) => row.innerText)"
    until(graph, f"{rows.format('Steps')}.length === 5 && {rows.format('Queues')}.length === 3")

    assert [row.split("\t")[0] for row in graph.evaluate(rows.format("Steps"))] == [
        "detect-1", "track-1", "apply-1", "jsonl-1", "draw-1",
    ]  # fmt: skip
    assert graph.evaluate(rows.format("Queues"))[0].startswith("source/gate\t")


def test_the_keyboard_moves_along_the_graph(graph: Page) -> None:
    graph.set_viewport_size({"width": 700, "height": 900})  # from top to bottom
    place = "document.querySelector(\"[data-box='{}']\").getBoundingClientRect()"
    until(graph, f"{place.format('step/apply-1')}.top > {place.format('step/track-1')}.bottom")
    graph.focus("[data-box='stream/gate']")
    focused = []
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        graph.keyboard.press(key)
        focused.append(graph.evaluate("document.activeElement.dataset.box"))

    assert focused == ["step/detect-1", "step/track-1", "step/apply-1", "step/track-1"]


def test_a_phone_shows_the_graph_from_top_to_bottom(graph: Page) -> None:
    graph.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    place = "document.querySelector(\"[data-box='{}']\").getBoundingClientRect()"
    until(graph, f"{place.format('step/apply-1')}.top > {place.format('step/track-1')}.bottom")

    assert graph.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert graph.evaluate(f"{place.format('step/draw-1')}.right") <= PHONE["width"]
