"""Every recipe of `examples/cookbook/` runs and makes what its first lines say.

A detector of the whole frame is replaced by the recorded truth of the clip, so that whole clips take a second; recipes
about models run as they are, on some frames.
"""

from __future__ import annotations

import json
import re
import runpy
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from sightline import Pipeline
from sightline.config import load_description
from sightline.graph import PipelineDescription
from sightline.runtime.stats.report import Report
from sightline_plugins import Detect, Replay
from tests.conftest import REPOSITORY, missing
from tests.integration.describe.chat_server import running, says
from tests.ports import free_port

COOKBOOK = REPOSITORY / "examples" / "cookbook"
CLIPS = REPOSITORY / "sample_videos"
RECIPES = sorted(path for path in COOKBOOK.iterdir() if path.suffix in (".py", ".yaml"))
PAGE = REPOSITORY / "docs" / "guide" / "cookbook.md"
SECOND_NS = 1_000_000_000
ENVIRONMENT = {"HOOK_URL": "http://127.0.0.1:9/hook", "MQTT_URL": "mqtt://127.0.0.1:9"}
"""Services that are not there: records wait in the outbox."""

Made = tuple[Path, Report]


def row_of(path: Path) -> str:
    """The row of a recipe on the page: its file, and what its first lines say of purpose, needs and results."""
    said = re.search(r"\A(?:# |\"\"\")(.+)\n\n?(?:# )?Needs: (.+)\n(?:# )?Makes: (.+)\n", path.read_text())
    assert said is not None, "a recipe begins with what it does, needs and makes"
    return f"| `examples/cookbook/{path.name}` | {said[1]} | {said[2]} | {said[3]} |"


@pytest.fixture(scope="module")
def truths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The true objects of each clip as JSON lines, with their labels."""
    folder = tmp_path_factory.mktemp("truths")
    for clip in ("dusk", "entrance", "gate", "street"):
        labels = json.loads((CLIPS / f"{clip}.truth.json").read_text())["classes"]
        frames: dict[int, list[dict[str, Any]]] = {}
        for row in np.loadtxt(CLIPS / f"{clip}.mot.txt", delimiter=","):
            left, top, width, height = row[2:6].tolist()
            number = int(row[7])
            found = {"label": labels[number], "class_id": number, "confidence": 0.9}
            box = [left, top, left + width, top + height]
            frames.setdefault(int(row[0]) - 1, []).append({**found, "box": box})
        lines = [json.dumps({"stream": clip, "frame": frame, "objects": own}) for frame, own in sorted(frames.items())]
        (folder / f"{clip}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def with_truths(description: PipelineDescription, truths: Path) -> PipelineDescription:
    """The pipeline with recorded objects where a detector searches whole frames."""
    steps = list(description.steps)
    for place, step in enumerate(steps):
        if isinstance(step, Detect) and step.on is None:
            steps[place] = Replay.model_validate({"path": truths / "{stream}.jsonl", "id": step.id or "detect-1"})
    return description.model_copy(update={"steps": tuple(steps)})


@pytest.fixture
def cook(tmp_path: Path, truths: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a recipe in YAML in a folder of its own: `name`, and whether its detectors run, on how many frames; further
    variables of the environment.
    """
    monkeypatch.chdir(tmp_path)

    def run(name: str, *, detect: bool = False, frames: int | None = None, **variables: str) -> Made:
        if not (REPOSITORY / "models" / "street.onnx").exists():
            missing("no models of the sample world")
        description = load_description(COOKBOOK / name, environment={**ENVIRONMENT, **variables})
        if not detect:
            description = with_truths(description, truths)
        pipeline = Pipeline.from_description(description, outputs=tmp_path)
        return tmp_path / "out", pipeline.run(frames=frames)

    return run


def events(path: Path) -> list[dict[str, Any]]:
    """The events in JSON lines."""
    return [event for line in path.read_text().splitlines() for event in json.loads(line).get("events", [])]


def test_people_are_counted_as_they_truly_walk(cook: Any) -> None:
    out, report = cook("people-counter.yaml")

    assert report.totals["lines-1"]["entrance"]["door"] == {"in": 5, "out": 5}
    assert len(events(out / "people-counter" / "entrance.jsonl")) == 10


@pytest.mark.parametrize(
    ("name", "kinds", "files"),
    [
        ("queue-alarm", {"served", "wait"}, set()),
        ("parking", {"parking"}, {"gate.mp4"}),
        ("loitering", {"loitering"}, set()),
        ("left-luggage", {"left", "removed"}, set()),
        ("wrong-way", {"direction"}, {"gate-*.jpg"}),
        ("speed", {"speed"}, {"street.csv"}),
    ],
)
def test_rules_report_what_their_recipe_is_about(name: str, kinds: set[str], files: set[str], cook: Any) -> None:
    out, _ = cook(f"{name}.yaml", frames=60 if name == "parking" else None)

    (path,) = (out / name).glob("*.jsonl")

    assert {event["kind"] for event in events(path)} == kinds
    assert [pattern for pattern in files if not list((out / name).glob(pattern))] == []


def test_clips_are_recorded_around_crossings(cook: Any) -> None:
    out, _ = cook("record-events.yaml")

    assert list((out / "record-events").glob("entrance-*.mp4"))


def test_heat_maps_are_images(cook: Any) -> None:
    out, _ = cook("heat-map.yaml")

    assert {path.name for path in (out / "heat-map").iterdir()} == {"entrance-standing.png", "entrance-ways.png"}


def test_a_dataset_has_images_and_labels(cook: Any) -> None:
    out, _ = cook("dataset-builder.yaml", frames=60)

    assert list((out / "dataset").rglob("*.jpg"))
    assert list((out / "dataset").rglob("*.txt"))


def test_people_are_hidden(cook: Any) -> None:
    out, report = cook("privacy.yaml", detect=True, frames=10)

    with av.open(str(out / "privacy" / "entrance.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == 10
    assert report.totals["privacy-1"]["entrance"]["objects_hidden"] > 0


def test_a_second_model_says_what_kind_of_vehicle_it_is(cook: Any) -> None:
    out, _ = cook("cascade.yaml", detect=True, frames=30)

    lines = [json.loads(line) for line in (out / "cascade" / "street.jsonl").read_text().splitlines()]
    assert any("kind" in one.get("attributes", {}) for line in lines for one in line.get("objects", []))


def test_a_model_agrees_with_itself(cook: Any) -> None:
    _, report = cook("compare-models.yaml", detect=True, frames=20)

    assert "detect-1" in report.totals


def test_plates_are_logged_and_found_again(
    cook: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = cook("plate-log.yaml", frames=60)
    with closing(sqlite3.connect(out / "plate-log.db")) as log:
        query = (
            "SELECT json_extract(attributes, '$.text') FROM objects WHERE label = 'plate' AND attributes IS NOT NULL"
        )
        texts = {text for (text,) in log.execute(query) if text}
    assert texts

    text = min(texts)
    monkeypatch.setattr(sys, "argv", ["search_plates.py", text[1:4]])
    runpy.run_path(str(COOKBOOK / "search_plates.py"), run_name="__main__")

    assert capsys.readouterr().out.startswith(text)


@pytest.mark.parametrize(("name", "step"), [("chat-images", "webhook-1"), ("home-assistant", "mqtt-1")])
def test_records_wait_for_a_service_that_is_away(name: str, step: str, cook: Any) -> None:
    out, report = cook(f"{name}.yaml", frames=60)

    assert report.totals[step] or list(out.rglob("*.outbox*"))


def test_alarms_go_out_when_a_model_has_confirmed_them(cook: Any) -> None:
    with running(says("No, nobody is there."), says("Yes, a person walks in.")) as server:
        out, report = cook("verify-alarms.yaml", VLM_URL=server.url)

    found = events(out / "verify-alarms" / "entrance.jsonl")
    counted = report.totals["describe-1"]["entrance"]["verified"]["lines-1.door"]
    assert (counted["alarms"], counted["refused"], counted["sent"]) == (10, 1, 9)
    assert [event["answer"] for event in found] == ["Yes, a person walks in."] * 9


def test_helmets_that_are_missing_are_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(COOKBOOK / "helmets.py"), run_name="__main__")

    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("has no helmet")


def test_events_become_a_time_lapse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sample_videos").symlink_to(CLIPS)
    monkeypatch.chdir(tmp_path)

    runpy.run_path(str(COOKBOOK / "time_lapse.py"), run_name="__main__")

    with av.open(str(tmp_path / "out" / "time-lapse" / "events.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == 10


@pytest.mark.parametrize("name", ["rtsp-republish.yaml", "webcam.yaml"])
def test_recipes_for_cameras_run_on_a_clip(name: str, tmp_path: Path, truths: Path) -> None:
    description = with_truths(load_description(COOKBOOK / name), truths)
    (stream,) = description.sources
    text: Mapping[str, object] = {"pattern": "bars", "frames": 5}
    pipeline = Pipeline(
        sources={"entrance": text},
        steps=[_on_a_free_port(step) for step in description.steps],
        outputs=tmp_path,
    )

    assert stream in ("entrance", "desk")
    assert pipeline.run().frames == 5


def _on_a_free_port(step: Any) -> Any:
    is_published = getattr(step, "rtsp", None) is not None
    return step.model_copy(update={"rtsp": step.rtsp.replace("8554", str(free_port()))}) if is_published else step


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_a_recipe_is_short_says_what_it_needs_and_is_on_the_page(path: Path) -> None:
    text = path.read_text()

    assert len(text.splitlines()) <= 40
    assert row_of(path) in PAGE.read_text().splitlines()
    assert re.search(rf'"{path.stem}(\.\w+)?"', Path(__file__).read_text()), "a test runs it"
