"""Steps that write files of each stream in several processes: what they write is what one process writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline.graph import MessageKind
from tests.integration.runtime.test_processes import CLIPS, COUNTED, LINE, REPLAY
from tests.waiting import wait_until

STEPS: list[Any] = [
    REPLAY,
    "track",
    LINE,
    {"snapshots": {"path": "snapshots/{stream}-{frame}.jpg", "on": "event", "limit": 3}},
    {"record": {"path": "record/{stream}-{time}.mp4", "on": "lines.a", "before": "1s", "after": "1s"}},
    {"publish": {"hls": "hls/{stream}/live.m3u8"}},
]


def written(folder: Path, *, processes: int) -> tuple[dict[str, bytes], dict[str, Any], list[str]]:
    """The files of a run with their contents, what its steps have counted, and the recordings that it reported."""
    pipeline = Pipeline(
        sources={name: f"{CLIPS}/{name}.mp4" for name in ("gate", "dusk")},
        steps=STEPS,
        processes=processes,
        outputs=folder,
    )
    told: list[str] = []
    pipeline.on_message(lambda message: told.append(message.text) if message.kind is MessageKind.RECORDING else None)
    totals = pipeline.run().to_json()["totals"]
    files = (path for kind in ("snapshots", "record", "hls") for path in (folder / kind).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}, totals, sorted(told)


def test_recordings_snapshots_and_segments_of_two_processes_are_those_of_one(tmp_path: Path) -> None:
    one, told, recordings = written(tmp_path / "1", processes=1)
    two, also_told, also_recordings = written(tmp_path / "2", processes=2)

    assert {path.partition("/")[0] for path in one} == {"snapshots", "record", "hls"}
    assert {path: len(data) for path, data in two.items()} == {path: len(data) for path, data in one.items()}
    assert two == one
    assert also_told == told
    assert recordings
    assert [text.replace(str(tmp_path / "2"), str(tmp_path / "1")) for text in also_recordings] == recordings


def test_a_stream_is_recorded_on_request_by_its_worker(tmp_path: Path) -> None:
    pipeline = Pipeline(
        sources={name: {"uri": f"{CLIPS}/{name}.mp4", "realtime": True, "loop": True} for name in ("gate", "dusk")},
        steps=[{"record": {"path": "{stream}-{time}.mp4", "before": "1s", "after": "100ms"}}],
        processes=2,
        outputs=tmp_path,
    )
    recorded: list[str | None] = []
    pipeline.on_message(lambda one: recorded.append(one.stream) if one.kind is MessageKind.RECORDING else None)
    with pipeline:
        wait_until(lambda: all(one.frames > 2 for one in pipeline.status()))
        pipeline.record("dusk")
        with pytest.raises(ConfigurationError, match="nothing records 'yard'"):
            pipeline.record("yard")
        wait_until(lambda: recorded == ["dusk"])

    assert [path.name.partition("-")[0] for path in tmp_path.glob("*.mp4")] == ["dusk"]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"snapshots": {"path": "{stream}-{frame}.jpg", "keep": {"count": 3}}}, "`keep` limits the files of all"),
        ({"publish": {"rtsp": "127.0.0.1:8554/{stream}"}}, "`rtsp` serves all its streams at one port"),
        ({"harvest": "kept"}, "`quota` and `limit` count the frames of all"),
        ({"publish": {"web": True}}, "`web` serves all its streams on one page"),
    ],
)
def test_what_all_streams_share_is_refused(step: dict[str, Any], reason: str, tmp_path: Path) -> None:
    pipeline = Pipeline(sources={"a": COUNTED, "b": COUNTED}, steps=[step], processes=2, outputs=tmp_path)

    with pytest.raises(ConfigurationError, match=reason):
        pipeline.check()
