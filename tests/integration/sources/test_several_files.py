"""The videos of a folder give what each gives alone, read at once or one after another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.waiting import wait_until

from sightline import Pipeline
from sightline.graph import StreamState
from sightline.media import Batch
from sightline.testing import assert_accounted

CLIPS = ("dusk.mp4", "gate.mp4", "street.mp4")
LENGTH = {"duration": "1s"}
JSONL = {"jsonl": {"path": "{stream}.jsonl"}}


@pytest.fixture
def folder(repository: Path, tmp_path: Path) -> Path:
    found = tmp_path / "clips"
    found.mkdir()
    for name in CLIPS:
        shutil.copy(repository / "sample_videos" / name, found)
    return found


def written(folder: Path) -> dict[str, list[str]]:
    """Return the lines of each stream, without its name."""
    return {
        path.stem.rpartition("-")[2]: [line.partition(",")[2] for line in path.read_text().splitlines()]
        for path in folder.glob("*.jsonl")
    }


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_folder_gives_what_its_files_give(folder: Path, tmp_path: Path, in_turn: bool) -> None:
    order: list[str] = []

    def note(batch: Batch) -> None:
        order.extend(frame.stream.name for frame in batch.frames)

    source = {"uri": str(folder), "in_turn": in_turn, **LENGTH}
    pipeline = Pipeline(sources={"in": source}, steps=[JSONL], outputs=tmp_path / "together")
    pipeline.probe("jsonl-1", note)
    report = pipeline.run()
    assert_accounted(report)
    for name in CLIPS:
        alone = {Path(name).stem: {"uri": str(folder / name), **LENGTH}}
        Pipeline(sources=alone, steps=[JSONL], outputs=tmp_path / "alone").run()

    assert written(tmp_path / "together") == written(tmp_path / "alone")
    assert all(written(tmp_path / "together").values())
    changes = [one for one, before in zip(order, [None, *order], strict=False) if one != before]
    assert not in_turn or changes == ["in-dusk", "in-gate", "in-street"]


def test_a_reload_lists_the_files_again(folder: Path, repository: Path, tmp_path: Path) -> None:
    for name in CLIPS[1:]:
        (folder / name).unlink()
    configuration = tmp_path / "p.yaml"
    configuration.write_text(
        "keep_running: true\nsources: {in: {uri: clips, in_turn: true, duration: 1s}}\n"
        'pipeline: [jsonl: {path: "{stream}.jsonl"}]\n'
    )
    pipeline = Pipeline.from_yaml(configuration, outputs=tmp_path / "out")
    pipeline.start()
    shutil.copy(repository / "sample_videos" / "gate.mp4", folder)
    pipeline.reload(configuration)

    wait_until(
        lambda: [one.name for one in pipeline.status() if one.state is StreamState.ENDED] == ["in-dusk", "in-gate"]
    )
    pipeline.stop()
    assert_accounted(pipeline.wait(), stopped=True)
    assert set(written(tmp_path / "out")) == {"dusk", "gate"}


def test_streams_that_take_turns_end_when_the_run_is_stopped(folder: Path, tmp_path: Path) -> None:
    pipeline = Pipeline(sources={"in": {"uri": str(folder), "in_turn": True}}, steps=[JSONL], outputs=tmp_path / "out")
    pipeline.start()
    pipeline.stop()
    report = pipeline.wait()

    assert_accounted(report, stopped=True)
    assert len(report.streams) == len(CLIPS)


def test_the_next_file_is_read_when_one_is_no_video(folder: Path, tmp_path: Path) -> None:
    (folder / "gate.mp4").write_bytes(b"no video")
    source = {"uri": str(folder), "in_turn": True, **LENGTH}
    report = Pipeline(sources={"in": source}, steps=[JSONL], outputs=tmp_path / "out").run()

    frames = {stream.stream.name: stream.processed for stream in report.streams}
    assert frames["in-gate"] == 0
    assert frames["in-dusk"] > 0
    assert frames["in-street"] > 0
