"""`--source` and `--set`: what they change, and the errors when they cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.config.conftest import Load

Problems = Callable[..., list[str]]

TEXT = """
sources:
  gate: gate.mp4
  yard.left: {uri: gate.mp4, loop: true}
batch: {size: 2}
pipeline:
- detect: {model: street.onnx, mean: [1, 2, 3]}
- track
- tee:
    archive: [{jsonl: {path: a.jsonl, id: all}}]
    alerts: [{lines: {g: {from: [0, 0], to: [1, 1]}}}, jsonl: b.jsonl]
"""


def changed(load: Load, *overrides: str, sources: tuple[str, ...] = ()) -> dict[str, object]:
    return load(TEXT, overrides=overrides, sources=sources).to_plain()


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("name=other", ["name"], "other"),
        ("batch.size=7", ["batch", "size"], 7),
        ("batch={size: 3}", ["batch", "size"], 3),
        ("batch.timeout=1s", ["batch", "timeout"], "1s"),
        ("sources.gate.loop=true", ["sources", "gate", "loop"], True),
        ("sources.yard.left.loop=false", ["sources", "yard.left", "loop"], False),
        ("pipeline.0.detect.confidence=0.9", ["pipeline", 0, "detect", "confidence"], 0.9),
        ("pipeline.detect.confidence=0.9", ["pipeline", 0, "detect", "confidence"], 0.9),
        ("pipeline.detect-1.confidence=0.9", ["pipeline", 0, "detect", "confidence"], 0.9),
        ("pipeline.detect.mean.1=9", ["pipeline", 0, "detect", "mean"], [1.0, 9.0, 3.0]),
        ("pipeline.detect.labels=[a, b]", ["pipeline", 0, "detect", "labels"], ["a", "b"]),
        ("pipeline.track.max_lost=5s", ["pipeline", 1, "track", "max_lost"], "5s"),
        ("pipeline.track={max_lost: 5s}", ["pipeline", 1, "track", "max_lost"], "5s"),
        ("pipeline.1.track.max_lost=5s", ["pipeline", 1, "track", "max_lost"], "5s"),
        ("pipeline.all.path=c.jsonl", ["pipeline", 2, "tee", "archive", 0, "jsonl", "path"], "c.jsonl"),
        ("pipeline.tee.archive.jsonl.path=c.jsonl", ["pipeline", 2, "tee", "archive", 0, "jsonl", "path"], "c.jsonl"),
        (
            "pipeline.2.tee.alerts.1.jsonl.stall_timeout=2s",
            ["pipeline", 2, "tee", "alerts", 1, "jsonl", "stall_timeout"],
            "2s",
        ),
        ("pipeline.jsonl-2.stall_timeout=2s", ["pipeline", 2, "tee", "alerts", 1, "jsonl", "stall_timeout"], "2s"),
        ("pipeline.jsonl-2.stall_timeout=2s", ["pipeline", 2, "tee", "alerts", 1, "jsonl", "path"], "b.jsonl"),
        ("pipeline.lines.g.to=[0.5, 1]", ["pipeline", 2, "tee", "alerts", 0, "lines", "lines", "g", "to"], [0.5, 1.0]),
        ("pipeline.all.password='12'", ["pipeline", 2, "tee", "archive", 0, "jsonl", "password"], "12"),
        ("pipeline.all.password=a=b", ["pipeline", 2, "tee", "archive", 0, "jsonl", "password"], "a=b"),
        ("pipeline.all.path=-", ["pipeline", 2, "tee", "archive", 0, "jsonl", "path"], "-"),
        ("pipeline.all.password=", ["pipeline", 2, "tee", "archive", 0, "jsonl", "password"], None),
    ],
)
def test_a_value_is_set(override: str, path: list[str | int], value: object, load: Load) -> None:
    found: object = changed(load, override)
    for part in path:
        found = found[part]  # type: ignore[index]

    assert found == value


def test_overrides_are_applied_in_order(load: Load) -> None:
    assert changed(load, "batch.size=3", "batch.size=4")["batch"] == {"size": 4, "timeout": "40ms"}


def test_a_source_is_replaced_with_all_its_options(load: Load) -> None:
    found = changed(load, sources=("yard.left=rtsp://10.0.0.7/main",))

    assert found["sources"]["yard.left"] == {"uri": "rtsp://10.0.0.7/main"}  # type: ignore[index]


def test_a_source_is_added(load: Load) -> None:
    assert list(changed(load, sources=("hall=gate.mp4",))["sources"]) == ["gate", "yard.left", "hall"]  # type: ignore[call-overload]


def test_a_pipeline_may_get_all_its_sources_from_the_command_line(load: Load) -> None:
    description = load("pipeline: [jsonl: a]\n", sources=["gate=gate.mp4"])

    assert list(description.sources) == ["gate"]


def test_a_source_of_the_command_line_starts_at_the_working_directory(
    folder: Path, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.config.parts import registry

    from sightline.config import load_description

    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (folder / "p.yaml").write_text("sources: {gate: gate.mp4}\npipeline: [jsonl: a]\n")
    (elsewhere / "mine.mp4").touch()
    monkeypatch.chdir(elsewhere)

    found = load_description("../p.yaml", sources=["gate=mine.mp4"], registry=registry()).to_plain()

    assert found["sources"]["gate"]["uri"] == str(elsewhere / "mine.mp4")


WRONG = {
    "nothing": "--set nothing: is written --set key.path=value",
    "=3": "--set : is written --set key.path=value",
    "nam=a": "--set nam: there is no key 'nam'; did you mean 'name'?",
    "batch.siz=1": "--set batch.siz: batch.siz: there is no such option; did you mean 'size'? Allowed: size, timeout",
    "batch.size=x": "--set batch.size: batch.size: must be a whole number",
    "name.x=1": "--set name.x: name: must be a text",
    "sources.gat.loop=true": "--set sources.gat.loop: there is no stream 'gat'; did you mean 'gate'?",
    "sources.gate.lop=true": "--set sources.gate.lop: sources.gate.lop: there is no such option; did you mean 'loop'?",
    "pipeline.detct.model=x": "--set pipeline.detct.model: there is no step 'detct'; did you mean 'detect'?",
    "pipeline.jsonl.path=x": "give one of pipeline.2.tee.archive.0, pipeline.2.tee.alerts.1,",
    "pipeline.9.detect.model=x": "pipeline has 3 entries, numbered from 0: there is none '9'",
    "pipeline.0.track.model=x": "the step pipeline.0 is 'detect', not 'track'",
    "pipeline.tee.archiv.0.jsonl.path=x": "pipeline.2.tee has no branch 'archiv'; did you mean 'archive'?",
    "pipeline.detect.mean.7=1": "pipeline.0.detect.mean has 3 entries, numbered from 0: there is none '7'",
    "pipeline.detect.confidence=2": "pipeline.0.detect.confidence: must be at most 1",
    "pipeline.detect.labels=[a": "a comma or the closing bracket of [ is missing",
    "device=gpu": "--set device: device: device 'gpu' is unknown: use auto, cpu, cuda or cuda:N",
}


@pytest.mark.parametrize("override", WRONG)
def test_an_override_that_can_not_be_applied_is_told(override: str, problems: Problems) -> None:
    found = problems(TEXT, overrides=[override])

    assert len(found) == 1
    assert WRONG[override] in found[0]


@pytest.mark.parametrize("text", ["gate", "=a.mp4", "gate="])
def test_a_source_without_name_or_uri_is_told(text: str, problems: Problems) -> None:
    assert "is written --source NAME=URI" in problems(TEXT, sources=[text])[0]


ONE = "sources: {gate: gate.mp4}\npipeline: [jsonl: '{stream}.jsonl']\n"


@pytest.mark.parametrize("text", ["-", "gate=-"])
def test_standard_input_stays_a_dash(load: Load, text: str) -> None:
    assert load(ONE, sources=[text]).to_plain()["sources"] == {"gate": {"uri": "-"}}


def test_standard_input_without_a_name_is_for_the_only_stream(problems: Problems) -> None:
    assert "there are 2 streams, so that standard input needs a name" in problems(TEXT, sources=["-"])[0]


def test_the_file_is_left_as_it_is_where_an_alias_stands_in_two_places(load: Load) -> None:
    text = "sources: {gate: gate.mp4}\npipeline:\n- jsonl: &o {path: '{stream}.a'}\n- tee: {x: [{jsonl: *o}]}\n"
    found = load(text.replace("'{stream}.a'", "a"), overrides=["pipeline.jsonl-1.path=b"]).to_plain()

    assert found["pipeline"][0] == {"jsonl": {"path": "b"}}
    assert found["pipeline"][1] == {"tee": {"x": [{"jsonl": {"path": "a"}}]}}
