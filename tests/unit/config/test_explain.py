"""`explain` names the origin of every value."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.config.explain import ExplainedPart, explain
from sightline.errors import ConfigurationError

PIPELINE = """
name: gate
sources:
  a: {video}
  b:
    uri: {video}
    loop: true
batch: {{size: 2}}
pipeline:
  - detect:
      model: {model}
      confidence: ${{CONFIDENCE:-0.25}}
      classes: [car, van]
  - track: {{max_lost: 3s}}
  - jsonl: "${{FOLDER}}/{{stream}}.jsonl"
"""


@pytest.fixture
def config(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOLDER", "some-secret-folder")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "gate.yaml"
    video, model = repository / "sample_videos" / "gate.mp4", repository / "models" / "street.onnx"
    file.write_text(PIPELINE.format(video=video, model=model))
    return file


def by_name(part: ExplainedPart) -> dict[str, tuple[str, str]]:
    return {value.name: (value.value, value.origin) for value in part.values}


def test_there_is_a_part_for_the_pipeline_each_stream_and_each_step(config: Path) -> None:
    titles = [part.title for part in explain(config)]

    assert titles == ["pipeline", "source a: media", "source b: media", "step detect-1", "step track-1", "step jsonl-1"]


def test_values_of_the_file_have_its_line(config: Path) -> None:
    pipeline, _, b, detect, track, _ = map(by_name, explain(config))

    assert pipeline["name"] == ("gate", f"{config}:2")
    assert pipeline["batch.size"] == ("2", f"{config}:8")
    assert b["loop"] == ("true", f"{config}:7")
    assert detect["classes"] == ('["car", "van"]', f"{config}:13")
    assert track["max_lost"] == ("3s", f"{config}:14")


def test_short_forms_are_spelled_out(config: Path, repository: Path) -> None:
    _, a, _, _, _, jsonl = map(by_name, explain(config))

    assert a["uri"] == (str(repository / "sample_videos" / "gate.mp4"), f"{config}:4")
    assert jsonl["path"][1] == f"{config}:15, environment FOLDER"


def test_values_of_the_environment_are_not_shown(config: Path) -> None:
    shown = [value.value for part in explain(config) for value in part.values]

    assert "${FOLDER}/{stream}.jsonl" in shown
    assert not any("secret" in text for text in shown)


def test_the_command_line_goes_first(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    parts = explain(config, overrides=["pipeline.detect.confidence=0.7", "sources.b.loop=4"], device="cpu")
    pipeline, _, b, detect, _, _ = map(by_name, parts)

    assert pipeline["device"] == ("cpu", "--device")
    assert b["loop"] == ("4", "--set sources.b.loop")
    assert detect["confidence"] == ("0.7", "--set pipeline.detect.confidence")


def test_what_nobody_gave_has_the_origin_of_its_choice(config: Path) -> None:
    _, a, _, detect, track, _ = map(by_name, explain(config))

    assert detect["head"] == ("yolov8", "model card street.yaml")
    assert detect["iou"] == ("0.6", "model card street.yaml")
    assert detect["max_detections"] == ("300", "head yolov8")
    assert detect["convert"] == ("network", "default")
    assert detect["size"] == ("[512, 288]", "model card street.yaml")
    assert track["min_hits"] == ("2", "default of adaptive")
    assert a["threads"] == ("1", "default")


def test_a_step_in_a_branch_says_which(config: Path) -> None:
    text = config.read_text().replace('  - jsonl: "${FOLDER}', '  - tee:\n      kept:\n        - jsonl: "${FOLDER}')
    config.write_text(text)

    assert explain(config)[-1].title == "step jsonl-1 in tee.kept"


def test_a_wrong_pipeline_is_not_explained(config: Path) -> None:
    config.write_text(config.read_text().replace("classes: [car", "classes: [lorry"))

    with pytest.raises(ConfigurationError, match="there is no class 'lorry'"):
        explain(config)


def test_secrets_that_the_file_holds_are_not_shown(tmp_path: Path) -> None:
    config = tmp_path / "hook.yaml"
    config.write_text(
        "sources: {gate: {pattern: counter}}\n"
        "pipeline:\n"
        "  - webhook: {url: 'http://me:hidden@127.0.0.1/', secret: hidden, headers: {X-Key: hidden}}\n"
    )

    *_, webhook = map(by_name, explain(config))

    assert webhook["url"][0] == "http://***@127.0.0.1/"
    assert webhook["secret"][0] == "***"
    assert webhook["headers"][0] == '{"X-Key": "***"}'
