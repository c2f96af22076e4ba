"""The editor of lines and zones: what is drawn in a browser counts, and is in the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.dashboard.browser import PHONE, check_accessible, until
from tests.integration.server.conftest import TOKEN, ask, wait_for

from sightline import Pipeline
from sightline.client import Client
from sightline.server import Listener, listen
from sightline.server.credentials import Role, TokenFile
from sightline_plugins import HeatMaps

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[3]
HOSTILE = "<img src=x onerror='window.pwned = 1'>"
CONFIGURATION = f"""\
# The street of the sample world.
name: street
sources:
  street: {{uri: {ROOT}/sample_videos/street.mp4, loop: true, realtime: true, max_fps: 5}}  # a corner
pipeline:
  - detect: {{model: {ROOT}/models/street.onnx, class_agnostic: true}}
  - track
  # Who drives by.
  - lines:
      road: {{from: [0.1, 0.6], to: [0.9, 0.6]}}
  - zones:
      box: {{polygon: [[0.4, 0.1], [0.8, 0.1], [0.8, 0.3], [0.4, 0.3]], classes: [car]}}  # far away
"""
PAVEMENT = [(0.02, 0.35), (0.28, 0.35), (0.28, 0.9), (0.02, 0.9)]
"""Where somebody walks at nearly all times; half the width to the right of it, nobody does."""


@dataclass(frozen=True, slots=True)
class Editor:
    """The editor of a pipeline in a browser."""

    page: Page
    listener: Listener
    token: str
    file: Path

    def open(self, stream: str = "") -> None:
        self.page.goto(f"{self.listener.url}?token={self.token}#/street/zones/{stream}")
        self.page.wait_for_selector(".shapes .shape-fill")

    def place(self, x: float, y: float) -> tuple[float, float]:
        """A place of the frame, in pixels of the page."""
        self.page.evaluate("window.scrollTo(0, 0)")
        box = self.page.locator(".shapes").bounding_box()
        assert box is not None
        return box["x"] + x * box["width"], box["y"] + y * box["height"]

    def draw(self, tool: str, points: list[tuple[float, float]]) -> None:
        self.page.click(f"button:text-is('{tool}')")
        for point in points:
            self.page.mouse.click(*self.place(*point))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.page.mouse.move(*self.place(*start))
        self.page.mouse.down()
        self.page.mouse.move(*self.place(*end), steps=4)
        self.page.mouse.up()

    def name(self, name: str) -> None:
        self.page.fill("#rule-name", name)
        self.page.press("#rule-name", "Enter")

    def save(self) -> None:
        self.page.click("text=Save to the running pipeline")
        until(self.page, "!document.querySelector('.save-bar')?.textContent.includes('unsaved')")

    def counts(self, rule: str) -> str:
        """What the list says beside a rule."""
        return f"[...document.querySelectorAll('.rule')].find((one) => one.textContent.includes('{rule}'))?.textContent"

    def rules(self) -> dict[str, dict[str, Any]]:
        """The rules that run."""
        found = ask(self.listener.port, "/api/v1/pipelines/street/rules", token=self.token).json()
        return {one["name"]: one["options"] for one in found}


@dataclass(frozen=True, slots=True)
class Running:
    """The sample world, detected, tracked and served from a file."""

    pipeline: Pipeline
    listener: Listener
    tokens: TokenFile
    token: str
    file: Path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("zones")
    file = folder / "street.yaml"
    file.write_text(CONFIGURATION)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SIGHTLINE_TOKEN", raising=False)
        patch.setenv("SIGHTLINE_TOKENS", str(folder / "tokens.json"))
        tokens = TokenFile()
        token = tokens.add("anna", Role.ADMIN)
        pipeline = Pipeline.from_yaml(file, outputs=folder / "out")
        with listen(pipeline, "127.0.0.1:0") as listener, pipeline:
            wait_for(lambda: ask(listener.port, "/readyz").status == 200, seconds=300)
            yield Running(pipeline, listener, tokens, token, file)


@pytest.fixture
def editor(running: Running, page: Page) -> Editor:
    """The editor, on the pipeline as it was written."""
    running.file.write_text(CONFIGURATION)
    running.pipeline.reload(prove=0).wait(300)
    return Editor(page, running.listener, running.token, running.file)


def test_a_zone_drawn_by_mouse_counts_the_next_person_and_is_in_the_file(editor: Editor) -> None:
    editor.open()
    editor.draw("New zone", [*PAVEMENT, PAVEMENT[0]])
    editor.name("pavement")
    editor.page.click(".toggles button:text-is('person')")
    check_accessible(editor.page)
    until(editor.page, f"/[1-9]\\d* would be inside now/.test({editor.counts('pavement')})")
    editor.save()

    until(editor.page, f"/[1-9]\\d* inside · [1-9]\\d* visitors/.test({editor.counts('pavement')})")
    editor.page.click("text=Write to YAML")
    editor.page.wait_for_selector("text=Written to the file, with its comments.")
    written = editor.file.read_text()
    assert [line for line in CONFIGURATION.splitlines() if line not in written.splitlines()] == []
    added = next(line for line in written.splitlines() if "pavement" in line)
    assert all(f"[{x:g}, {y:g}]" in added for x, y in PAVEMENT)
    assert "classes: [person]" in added

    editor.drag((0.15, 0.5), (0.75, 0.55))
    editor.save()
    until(editor.page, f"/0 inside · [1-9]\\d* visitors/.test({editor.counts('pavement')})")

    editor.page.click("button:text-is('Undo')")
    editor.save()
    until(editor.page, f"/[1-9]\\d* inside · [1-9]\\d* visitors/.test({editor.counts('pavement')})")


def test_the_keyboard_alone_draws_moves_and_saves_a_zone(editor: Editor) -> None:
    editor.open()
    page = editor.page
    page.focus("button:text-is('New zone')")
    page.keyboard.press("Enter")
    page.wait_for_selector(".drawing:focus")
    for keys in (["Enter"], ["Shift+ArrowRight"] * 4, ["Enter"], ["Shift+ArrowDown"] * 6, ["Enter"], ["Enter"]):
        for key in keys:
            page.keyboard.press(key)
    until(page, "document.activeElement.id === 'rule-name'")
    page.keyboard.type("by keys")
    page.keyboard.press("Enter")

    page.focus(".handle >> nth=0")
    assert page.locator(".handle:focus").get_attribute("aria-label") == (
        "Point 1 of 3 of by keys: 50.0 % from the left, 50.0 % from the top"
    )
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Escape")
    page.focus(".shape[data-shape='by keys']")
    page.keyboard.press("Shift+ArrowUp")
    page.focus("text=Save to the running pipeline")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Saved: it counts from now on.")

    assert editor.rules()["by keys"] == {"polygon": [[0.49, 0.45], [0.7, 0.45], [0.7, 0.75]]}


def test_points_come_and_go_and_a_cut_makes_two_zones_of_one(editor: Editor) -> None:
    editor.open()
    editor.page.click(".rule:has-text('box')")
    editor.drag((0.6, 0.3), (0.6, 0.5))
    assert editor.page.locator(".handle").count() == 5
    editor.page.keyboard.press("Delete")
    until(editor.page, "document.querySelectorAll('.handle').length === 4")

    editor.draw("Split", [(0.7, 0.05), (0.7, 0.6)])
    until(editor.page, "document.querySelectorAll('.rule').length === 3")
    editor.save()
    rules = editor.rules()
    assert rules["box"]["classes"] == rules["box 2"]["classes"] == ["car"]
    assert sorted({x for x, _ in rules["box"]["polygon"]} | {x for x, _ in rules["box 2"]["polygon"]}) == [
        0.4,
        0.7,
        0.8,
    ]

    for _ in range(3):
        editor.page.keyboard.press("Control+z")
    editor.page.wait_for_selector("text=2 unsaved changes")
    assert editor.page.locator(".rule").count() == 2


def test_a_line_shows_which_side_is_in_and_turns_around(editor: Editor) -> None:
    editor.open()
    page = editor.page

    way = (
        "[...document.querySelectorAll('.shape-way')].find((one) => one.textContent === '{}').getBoundingClientRect().y"
    )
    is_in_below = f"{way.format('in')} > {way.format('out')}"
    assert page.evaluate(is_in_below)
    page.click(".rule:has-text('road')")
    page.click("text=Turn around")
    until(page, f"!({is_in_below})")
    editor.save()
    assert editor.rules()["road"] == {"from": [0.9, 0.6], "to": [0.1, 0.6]}


def test_a_corner_is_set_under_what_is_said_of_the_stream(editor: Editor) -> None:
    editor.page.route_web_socket("**/live*", lambda _: None)  # the note stays in the middle of the image
    editor.open()
    editor.page.wait_for_selector(".player-note")
    editor.draw("New zone", [(0.1, 0.1), (0.5, 0.5)])
    until(editor.page, "document.querySelectorAll('.drawing .handle-dot').length === 2")


def test_what_is_wrong_is_said_before_it_is_sent(editor: Editor) -> None:
    editor.open()
    page = editor.page
    page.click("button:text-is('New zone')")
    for point in [(0.1, 0.1), (0.5, 0.5), (0.5, 0.1), (0.1, 0.5)]:
        page.mouse.click(*editor.place(*point))
    page.wait_for_selector("text=It crosses itself")
    page.keyboard.press("Escape")
    page.wait_for_selector("text=It crosses itself", state="detached")

    page.click(".rule:has-text('box')")
    editor.name("gone")
    page.wait_for_selector("text=gone is an option of the step")
    assert page.locator("text=Save to the running pipeline").is_disabled()
    editor.name("box")
    page.fill("#field-dwell", "soon")
    page.press("#field-dwell", "Enter")
    page.wait_for_selector("text=A duration is a number with a unit")
    page.fill("#field-limit", "-1")
    page.press("#field-limit", "Enter")
    page.wait_for_selector("text=The least is 0.")
    check_accessible(page)


def test_what_another_one_changed_is_shown_and_one_chooses(editor: Editor) -> None:
    editor.open()
    page = editor.page
    page.click(".rule:has-text('box')")
    page.fill("#field-limit", "3")
    page.press("#field-limit", "Enter")
    with Client(editor.listener.url, token=editor.token) as client:
        box = client.pipeline().rule("zones-1", "box").options
        client.pipeline().put_rule("zones-1", "box", {**box, "limit": 7})
        client.pipeline().put_rule("zones-1", "other", box)

    page.wait_for_selector("text=Somebody else has changed box meanwhile: limit: 7 instead of –.")
    page.wait_for_selector(".rule:has-text('other')")
    assert page.locator("text=Save to the running pipeline").is_disabled()
    check_accessible(page)
    page.click("text=Keep mine")
    editor.save()

    assert (editor.rules()["box"]["limit"], "other" in editor.rules()) == (3, True)


def test_whoever_was_slower_is_told_and_loses_nothing(editor: Editor) -> None:
    editor.open()
    page = editor.page
    page.click(".rule:has-text('box')")
    page.fill("#field-dwell", "60s")
    editor.save()
    editor.name("square")
    page.route("**/street/rules", lambda route: route.abort())  # the page does not see that another one comes first
    with Client(editor.listener.url, token=editor.token) as client:
        client.pipeline().put_rule("lines-1", "road", {"from": [0.2, 0.5], "to": [0.8, 0.5]})
    page.click("text=Save to the running pipeline")
    page.wait_for_selector("text=Somebody else was quicker.")

    page.unroute("**/street/rules")
    until(page, "document.querySelector('[data-shape=road]').ariaLabel.endsWith('50.0 % from the top')")
    assert page.locator(".conflict").count() == 0
    editor.save()
    rules = editor.rules()
    assert (rules["road"]["from"], rules["square"]["dwell"]) == ([0.2, 0.5], "1m")


def test_what_is_saved_is_not_edited_and_no_change_of_somebody_else(editor: Editor) -> None:
    editor.open()
    page = editor.page
    page.click(".rule:has-text('box')")
    page.fill("#field-dwell", "60s")
    page.route("**/street/rules", lambda route: None)  # held: the page does not see yet that the server writes 1m
    page.click("text=Save to the running pipeline")
    wait_for(lambda: editor.rules()["box"].get("dwell") == "1m")
    assert page.is_disabled("#rule-name")

    page.unroute("**/street/rules")  # those that are held go on
    editor.name("square")
    until(page, "document.querySelector('#field-dwell').value === '1m'")
    assert page.locator(".conflict").count() == 0
    editor.save()
    assert editor.rules()["square"]["dwell"] == "1m"


def test_a_change_that_was_taken_back_says_why_and_is_not_lost(editor: Editor) -> None:
    editor.open()
    page = editor.page
    reason = {"title": "reverted", "status": 409, "detail": "zones-1 failed on frame 12"}
    page.route("**/rules?*", lambda route: route.fulfill(status=409, json=reason))
    page.click(".rule:has-text('box')")
    editor.name("square")
    page.click("text=Save to the running pipeline")

    page.wait_for_selector("text=The change was taken back: zones-1 failed on frame 12")
    assert page.locator(".save-bar").inner_text().startswith("1 unsaved change")


def test_unsaved_changes_are_kept_and_asked_about(editor: Editor) -> None:
    editor.open()
    page = editor.page
    page.click(".rule:has-text('box')")
    editor.name(HOSTILE)
    page.click("nav a >> nth=0")
    page.wait_for_selector(".zones", state="detached")
    editor.open()
    page.wait_for_selector("text=were not saved and have been kept")
    assert page.locator(".rule-name >> nth=1").inner_text() == HOSTILE
    page.reload()
    page.wait_for_selector("text=were not saved and have been kept")
    page.click(".conflict >> text=Discard")

    page.wait_for_selector(".rule:has-text('box')")
    assert page.locator(".save-bar").count() == 0
    assert page.evaluate("window.pwned") is None


def test_a_phone_draws_by_touch_without_scrolling_sideways(editor: Editor) -> None:
    browser = editor.page.context.browser
    assert browser is not None
    with browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True) as context:  # type: ignore[arg-type]
        page = context.new_page()
        touching = Editor(page, editor.listener, editor.token, editor.file)
        touching.open()
        page.tap("button:text-is('New line')")
        page.touchscreen.tap(*touching.place(0.2, 0.3))
        page.touchscreen.tap(*touching.place(0.8, 0.3))
        page.wait_for_selector(".rule:has-text('line')")
        touch = context.new_cdp_session(page)
        steps = [("touchStart", (0.8, 0.3)), ("touchMove", (0.7, 0.4)), ("touchMove", (0.6, 0.5)), ("touchEnd", None)]
        for kind, place in steps:
            points = [dict(zip("xy", touching.place(*place), strict=True))] if place else []
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        until(
            page, "document.querySelector('[aria-label^=\"Point 2 of 2\"]').ariaLabel.includes('60.0 % from the left')"
        )

        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        check_accessible(page)


def test_the_first_zone_brings_its_step(tmp_path: Path, page: Page) -> None:
    replay = {"replay": {"path": str(ROOT / "sample_videos/street.mot.txt"), "format": "mot", "label": "car"}}
    source = {"uri": str(ROOT / "sample_videos/street.mp4"), "loop": True, "realtime": True, "max_fps": 2}
    pipeline = Pipeline(name="street", sources={"street": source}, steps=[replay], outputs=tmp_path)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        editor = Editor(page, listener, TOKEN, tmp_path)
        page.goto(f"{listener.url}?token={TOKEN}#/street/zones")
        page.wait_for_selector("text=No lines and zones work on street.")
        page.click("button:text-is('New zone')")
        page.wait_for_selector("text=Save adds track, zones after replay-1.")
        check_accessible(page)
        page.click("button:text-is('Draw')")
        for point in [*PAVEMENT, PAVEMENT[0]]:
            page.mouse.click(*editor.place(*point))
        editor.save()

        until(page, f"/\\d+ inside/.test({editor.counts('zone')})")
        steps = ask(listener.port, "/api/v1/pipelines/street/elements", token=TOKEN).json()
        assert [one["id"] for one in steps] == ["replay-1", "track-1", "zones-1"]

        page.click(".rule:has-text('zone')")
        page.click("button.danger")
        editor.save()
        page.wait_for_selector("text=No lines and zones work on street.")


def test_a_viewer_sees_them_and_changes_nothing(running: Running, page: Page) -> None:
    viewer = running.tokens.add("vera", Role.VIEWER)
    page.goto(f"{running.listener.url}?token={viewer}#/street/zones")
    page.click(".shape[data-shape='box']")

    page.wait_for_selector("text=Changing them needs the role operator.")
    assert page.locator(".handle, .bar button").count() == 0
    assert page.locator("#rule-name").is_disabled()


CUTS: list[tuple[list[list[float]], list[list[float]], int]] = [
    ([[0, 0], [1, 0], [1, 1], [0, 1]], [[0.5, -0.1], [0.5, 1.1]], 2),
    ([[0, 0], [1, 0], [1, 1], [0, 1]], [[-0.1, -0.1], [1.1, 1.1]], 2),  # through two corners
    ([[0, 0], [1, 0], [1, 1], [0.5, 0.2], [0, 1]], [[-0.1, 0.6], [1.1, 0.6]], 3),  # a bay
    ([[0, 0], [1, 0], [1, 1], [0, 1]], [[0.5, 0.2], [0.5, 1.1]], 0),  # ends within
    ([[0, 0], [1, 0], [1, 1], [0, 1]], [[2, 0], [2, 1]], 0),
]


def test_cuts_divide_the_area_and_nothing_is_lost(editor: Editor) -> None:
    editor.open()
    for polygon, segment, parts in CUTS:
        script = """async ([polygon, segment]) => {
            const {area, cut} = await import("/dashboard/parts/geometry.js");
            const parts = cut(polygon, segment) ?? [];
            return [parts.length, parts.reduce((sum, one) => sum + area(one), 0), area(polygon)];
        }"""
        found, area, whole = editor.page.evaluate(script, [polygon, segment])
        assert found == parts, (polygon, segment)
        assert not parts or area == pytest.approx(whole, abs=1e-3)


def test_a_polygon_that_may_be_left_out_is_drawn_and_two_numbers_are_no_ends_of_a_zone(editor: Editor) -> None:
    editor.open()
    told = {"outline": HeatMaps.outline, "json_schema": HeatMaps.model_json_schema()}

    corners, form = editor.page.evaluate(
        """async (told) => {
            const {drawingOf, formSchema} = await import("/dashboard/parts/shapes.js");
            const drawing = drawingOf(told);
            return [drawing.corners, Object.keys(formSchema(drawing).properties)];
        }""",
        told,
    )

    assert corners == "polygon"
    assert {"grid", "measure", "half_life"} <= set(form)
    assert "polygon" not in form
