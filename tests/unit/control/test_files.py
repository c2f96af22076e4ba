"""Pipelines that come from files: what was changed while they ran is written back to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.config import ConfigurationFile, load_description
from sightline.errors import ConfigurationError, StaleConfiguration
from sightline_plugins import Lines
from tests.unit.control.running import LIMIT_SECONDS

TEXT = """\
# The yard.
sources:
  yard: {pattern: counter, frames: null, realtime: true, size: [64, 48]}
pipeline:
  - replay: {path: boxes.txt}
  - track
  - lines:
      road: {from: [0.1, 0.6], to: [0.9, 0.6]}   # across
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "boxes.txt").write_text("1,1,10,10,20,20,1,-1,-1,-1\n")
    path = tmp_path / "yard.yaml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def pipeline(path: Path) -> Iterator[Pipeline]:
    pipeline = Pipeline.from_yaml(path, outputs=path.parent)
    pipeline.start()
    yield pipeline
    pipeline.stop()
    pipeline.wait()


def move(pipeline: Pipeline, y: float = 0.7) -> None:
    line = Lines(road={"from": [0.1, y], "to": [0.9, 0.6]})
    pipeline.change(lambda now: now.with_element("lines-1", line), prove=0).wait(LIMIT_SECONDS)


def test_a_change_is_written_back_with_its_comment(pipeline: Pipeline, path: Path) -> None:
    before = pipeline.configuration
    move(pipeline)
    moved = pipeline.configuration

    assert pipeline.write_back()

    assert path.read_text() == TEXT.replace("[0.1, 0.6]", "[0.1, 0.7]")
    assert (before.is_of_file, moved.is_of_file, pipeline.configuration.is_of_file) == (True, False, True)
    assert load_description(path) == pipeline.description
    assert not pipeline.write_back()


def test_a_file_that_has_changed_is_not_written_before_it_is_reloaded(pipeline: Pipeline, path: Path) -> None:
    move(pipeline)
    path.write_text(TEXT + "  - jsonl: {path: out.jsonl}\n")
    with pytest.raises(StaleConfiguration, match="reload it, or undo that"):
        pipeline.write_back()

    pipeline.reload(prove=0).wait(LIMIT_SECONDS)
    move(pipeline, 0.8)
    pipeline.write_back()

    assert path.read_text() == TEXT.replace("[0.1, 0.6]", "[0.1, 0.8]") + "  - jsonl: {path: out.jsonl}\n"


@pytest.mark.parametrize("as_path", [False, True])
def test_a_reload_undoes_what_was_not_written(pipeline: Pipeline, path: Path, as_path: bool) -> None:
    move(pipeline)

    pipeline.reload(*([path] if as_path else []), prove=0).wait(LIMIT_SECONDS)

    assert pipeline.configuration.is_of_file
    assert path.read_text() == TEXT


def test_a_pipeline_that_comes_from_no_file_has_none_to_read_or_write() -> None:
    pipeline = Pipeline(sources={"yard": {"pattern": "bars"}})

    assert not pipeline.configuration.is_of_file
    with pytest.raises(ConfigurationError, match="comes from no file"):
        pipeline.write_back()
    with pytest.raises(ConfigurationError, match="comes from no file"):
        pipeline.reload()


def test_streams_that_were_added_are_written_and_what_the_command_line_gives_is_not(path: Path) -> None:
    pipeline = Pipeline.from_file(ConfigurationFile(path, overrides=["pipeline.track.max_lost=9s"]))
    pipeline.add_source("gate", {"pattern": "bars", "size": [64, 48]})

    pipeline.write_back()

    added = "  gate: {pattern: bars, size: [64, 48]}\n"
    assert path.read_text() == TEXT.replace("pipeline:", f"{added}pipeline:")
