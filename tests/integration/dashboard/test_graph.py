"""The graph of a pipeline: what each step costs, where frames wait, and which step keeps the others waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.dashboard.browser import PHONE, check_accessible, until

from sightline import Pipeline
from sightline.server import Listener, listen
from sightline.server.credentials import Role, TokenFile
from sightline_plugins import Draw

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
APPLY = ".graph-options button.main"
BOTTLENECK = "document.getElementById('bottleneck')?.textContent ?? ''"


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
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
    return Pipeline(name="street", sources={"gate": STREET}, steps=steps, outputs=folder)


@pytest.fixture(scope="module")
def tokens() -> Iterator[Mapping[Role, str]]:
    """A token for each role."""
    known = TokenFile()
    yield {role: known.add(f"graph-{role}", role) for role in Role}
    for role in Role:
        known.remove(f"graph-{role}")


@pytest.fixture(scope="module")
def shown(pipeline: Pipeline, tokens: Mapping[Role, str]) -> Iterator[Listener]:
    """The pipeline, running and served."""
    del tokens  # known before it listens
    with listen(pipeline, "127.0.0.1:0") as listener, pipeline:
        yield listener


@pytest.fixture
def graph(shown: Listener, tokens: Mapping[Role, str], page: Page) -> Page:
    """The screen as an admin sees it, with all steps."""
    page.goto(f"{shown.url}?token={tokens[Role.ADMIN]}#/street/graph")
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
    graph.click("[data-box='step/draw-1']")
    graph.wait_for_selector("#field-keypoint_confidence")
    assert graph.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_an_option_is_changed_while_the_step_goes_on(pipeline: Pipeline, graph: Page) -> None:
    graph.click("[data-box='step/draw-1']")
    graph.wait_for_selector("#field-labels")
    assert "Write the name of its class" in graph.locator("#field-labels-about").inner_text()
    check_accessible(graph)

    graph.check("#field-labels")
    graph.click(APPLY)

    until(graph, "document.querySelector('.notice')?.textContent.includes('draw-1 goes on with the new options')")
    graph.reload()
    graph.wait_for_selector("#field-labels")
    assert graph.is_checked("#field-labels")
    assert options_of(pipeline, "draw-1")["labels"] is True


def test_what_the_server_refuses_is_told_where_it_stands(pipeline: Pipeline, graph: Page) -> None:
    graph.click("[data-box='step/draw-1']")
    graph.wait_for_selector("#field-thickness")
    graph.fill("#field-thickness", "1000")
    graph.click(APPLY)
    until(graph, "document.querySelector('#field-thickness-about [role=alert]')?.textContent.includes('64')")

    changed = pipeline.description.with_element("draw-1", Draw(labels=False, clock=True))
    pipeline.change(lambda _: changed, prove=0).wait()
    graph.fill("#field-thickness", "3")
    graph.click(APPLY)
    until(graph, "document.querySelector('.graph-refusal')?.textContent.includes('Somebody else has changed')")
    graph.click("text=Load the present options")

    until(graph, "document.querySelector('#field-clock')?.checked")
    assert graph.input_value("#field-thickness") == ""


def test_who_may_only_look_changes_nothing(shown: Listener, tokens: Mapping[Role, str], page: Page) -> None:
    page.goto(f"{shown.url}?token={tokens[Role.VIEWER]}#/street/graph/step/draw-1")
    page.wait_for_selector("#field-labels")

    assert page.is_disabled("#field-labels")
    assert page.locator(APPLY).count() == 0


def options_of(pipeline: Pipeline, element_id: str) -> dict[str, object]:
    """The options that were given to a step."""
    return pipeline.description.element(element_id).model_dump(exclude_unset=True)


def test_a_frame_is_inspected_from_the_network_s_input_to_what_became_of_each_box(graph: Page) -> None:
    graph.click("text=Inspect a frame")
    graph.wait_for_selector(".inspect-input img")
    until(graph, "document.querySelector('.inspect-input img').naturalWidth > 0")
    until(graph, "document.querySelector('.inspect-frame img')?.naturalWidth === 640")

    rows = "[...document.querySelectorAll('.inspect-rows tbody tr')].map((row) => row.lastElementChild.textContent)"
    kept = graph.evaluate(rows).count("kept")
    assert f"It would keep {kept} boxes, as now." in graph.locator(".inspect-threshold").inner_text()
    assert difference_of_images(graph) < 12
    check_accessible(graph)

    graph.fill("#inspect-threshold", "0.05")
    until(graph, "document.querySelector('.inspect-threshold [role=status]').textContent.includes('more than now')")
    assert graph.evaluate(rows).count("kept") == kept
    graph.fill("#inspect-threshold", "1")
    until(graph, "document.querySelector('.inspect-threshold [role=status]').textContent.includes('keep 0 boxes')")

    graph.click(".inspect-steps button:has-text('track-1')")
    until(graph, "document.querySelectorAll('.inspect-input').length === 0")
    boxes = graph.locator(".inspect-rows tbody tr").count()
    assert graph.locator(".inspect-frame rect").count() == boxes == kept


def test_pointing_at_a_box_shows_its_row(graph: Page) -> None:
    graph.click("text=Inspect a frame")
    graph.wait_for_selector(".inspect-rows tbody tr")
    graph.hover(".inspect-rows tbody tr:first-child td:nth-child(2)")

    until(graph, "document.querySelectorAll('.inspect-frame rect.marked').length === 1")
    assert graph.locator(".inspect-rows tr.marked").count() == 1


def difference_of_images(page: Page) -> float:
    """How far the network's input is from the frame in its size, in levels on average: both are looked at as they are
    shown.
    """
    drawn: float = page.evaluate("""() => {
      const [frame, input] = [".inspect-frame img", ".inspect-input img"].map((name) => {
        const canvas = Object.assign(document.createElement("canvas"), { width: 64, height: 36 });
        const context = canvas.getContext("2d");
        context.drawImage(document.querySelector(name), 0, 0, 64, 36);
        return context.getImageData(0, 0, 64, 36).data;
      });
      return frame.reduce((sum, level, at) => sum + Math.abs(level - input[at]), 0) / frame.length;
    }""")
    return drawn
