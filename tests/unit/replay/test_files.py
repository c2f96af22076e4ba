"""Recordings in several files, compressed or not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph import CheckContext, Outputs
from sightline.testing import run_element
from sightline_plugins import Jsonl
from sightline_plugins.commands.evaluate.annotations import read_annotations
from sightline_plugins.replay.formats import read_recording
from sightline_plugins.replay.replay import Replay
from sightline_plugins.sinks.compression import Compression
from tests.unit.sinks.images import batches


def rotated(folder: Path, *, compress: Compression | None, stream: str = "cam", name: str = "{stream}") -> Path:
    """Ten frames in several files; the pattern that matches them."""
    element = Jsonl.model_validate({"path": f"{name}.jsonl", "rotate": {"size": "400B"}, "compress": compress})
    run_element(element, batches(10, stream=stream), outputs=folder)
    return folder / "*.jsonl*"


def frames(path: Path, *, stream: str = "cam") -> list[int]:
    return sorted(item.frame for item in read_recording(path, file_format=None, stream=stream))


@pytest.mark.parametrize("compress", [None, "gzip", "zstd"])
def test_a_pattern_reads_all_parts_of_a_rotated_recording(tmp_path: Path, compress: Compression | None) -> None:
    pattern = rotated(tmp_path, compress=compress)

    assert len(list(tmp_path.iterdir())) > 3
    assert frames(pattern) == list(range(10))


def test_a_part_with_one_of_two_streams_belongs_to_that_one_only(tmp_path: Path) -> None:
    for stream in ("a", "b"):
        rotated(tmp_path, compress=None, stream=stream, name="all")

    assert frames(tmp_path / "*.jsonl", stream="a") == list(range(10))


@pytest.mark.parametrize("compress", ["gzip", "zstd"])
def test_of_a_truncated_file_what_is_there_is_read(tmp_path: Path, compress: Compression) -> None:
    element = Jsonl.model_validate({"path": "a.jsonl", "rotate": {"every": "1d"}, "compress": compress})
    run_element(element, batches(3000), outputs=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1000])

    found = frames(path)

    assert found == list(range(len(found)))
    assert 0 < len(found) < 3000


def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"stream":"cam","frame":0}\n')[:-8] + b"xxxxxxxx")

    with pytest.raises(ConfigurationError, match=r"a\.jsonl\.gz cannot be read: it is damaged"):
        frames(path)


def test_a_file_that_is_being_compressed_is_not_read(tmp_path: Path) -> None:
    pattern = rotated(tmp_path, compress="gzip")
    (tmp_path / "z.jsonl.gz.part").write_bytes(b"half")

    assert frames(pattern) == list(range(10))


def test_a_replay_of_a_pattern_is_checked_and_read(tmp_path: Path) -> None:
    element = Replay(path=rotated(tmp_path, compress="gzip"))
    context = CheckContext(device=Device(), streams=("cam",), outputs=Outputs(tmp_path))

    given = batches(10)
    again = run_element(element, given)

    assert list(element.check(context)) == []
    assert [len(batch.objects) for batch in again] == [2] * 10


@pytest.mark.parametrize("pattern", ["*.jsonl.gz", "{stream}-*.jsonl*"])
def test_a_pattern_that_matches_nothing_is_a_problem(tmp_path: Path, pattern: str) -> None:
    sources = {"cam": {"pattern": "bars", "frames": 1}}
    pipeline = Pipeline(sources=sources, steps=[Replay(path=tmp_path / pattern)])

    with pytest.raises(ConfigurationError, match="no file matches"):
        pipeline.run()


def test_results_to_score_are_read_from_a_pattern(tmp_path: Path) -> None:
    table = read_annotations(rotated(tmp_path, compress="gzip"), truth=True)

    assert sorted(table.frame.tolist()) == list(range(10))
