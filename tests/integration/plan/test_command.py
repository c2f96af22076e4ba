"""`sightline plan` on the street: what it measures, prints and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sightline.cli.main import execute

CONFIG = """\
sources:
  gate: {repository}/sample_videos/street.mp4
pipeline:
  - detect: {{model: {repository}/models/street.onnx}}
  - track
  - jsonl: {{path: out/gate.jsonl}}
"""
FLEET = """\
streams: 5000
machines:
  server: {cores: 64, memory: 100GB, count: 1}
  edge: {cores: 4, memory: 4GB, speed: 0.5}
"""


@pytest.fixture
def config(repository: Path, tmp_path: Path) -> Path:
    path = tmp_path / "gate.yaml"
    path.write_text(CONFIG.format(repository=repository))
    return path


def test_a_plan_agrees_with_what_was_measured(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = config.with_name("fleet.yaml")
    fleet.write_text(FLEET)
    arguments = ["--seconds", "2", "--fps", "8", "--headroom", "0.2", "--fleet", str(fleet), "--json"]
    code = execute(["plan", str(config), *arguments])

    told = capsys.readouterr()
    assert "1/5  each stream once: 1 stream" in told.err
    plan = json.loads(told.out)
    figures = plan["figures"]
    assert figures["rates"]["gate"] == pytest.approx(8, rel=0.3)
    assert figures["steps_ms"] > 0
    most = plan["most_streams"]["processor"]
    cost = figures["rates"]["gate"] * (figures["decode_ms"]["gate"] + figures["steps_ms"])
    assert most == pytest.approx(1000 * figures["usable"] * figures["cores"] / cost, abs=0.01)
    assert plan["streams"] <= 0.8 * most + 1e-6
    assert code == (0 if plan["fits"] else 1)
    machines = plan["fleet"]["machines"].values()
    assert sum(one["streams"] for one in machines) + plan["fleet"]["without_a_place"] == 5000
    assert not (config.parent / "out").exists()


def test_a_plan_is_told_in_words(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    execute(["plan", str(config), "--seconds", "2", "--fps", "8", "-q"])

    told = capsys.readouterr()
    assert told.err == ""
    lines = told.out.splitlines()
    assert [line.split("  ")[1] for line in lines[2:5]] == ["decoders alone", "steps alone", "everything"]
    assert any(line.startswith("Fits: ") for line in lines)


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        ("streams: 3\nmachines: {edge: {cores: 0, memory: 4GB}}", "machines.edge.cores"),
        ("streams: 3\nmachines: {edge: {cores: 2}}", "machines.edge"),
        ("streams: 3\nmachines: {}", "machines"),
    ],
)
def test_a_wrong_fleet_is_said_before_anything_runs(
    config: Path, fleet: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config.with_name("fleet.yaml")
    path.write_text(fleet)
    assert execute(["plan", str(config), "--fleet", str(path)]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert "1/5" not in told.err


def test_a_source_that_cannot_be_read_ends_it_with_one_error(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = config.with_name("broken.mp4")
    broken.write_bytes(b"no video")
    assert execute(["plan", str(config), "--source", f"yard={broken}", "--seconds", "2"]) == 1
    assert "broken.mp4" in capsys.readouterr().err
