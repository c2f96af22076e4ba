from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from sightline.devices import Device
from sightline.errors import OutputError
from sightline.graph import CheckContext, Outputs
from sightline.media import Batch, Event, Frame, Objects, Origin, TimeSource
from sightline.testing import make_batches, make_frames, run_element
from sightline_plugins.sinks.jsonl import Jsonl

LABELS = ("person", "bicycle", "car")


def one_car(frame: int = 0, *, track_id: int = 5, confidence: float = 0.871) -> Objects:
    return Objects.from_columns(
        frame=[frame],
        xyxy=[[1.1, 2.25, 30.333, 40]],
        confidence=[confidence],
        class_id=[2],
        source=Origin("detect", LABELS),
        track_id=[track_id],
    )


def written(folder: Path, *batches: Batch, name: str = "o.jsonl") -> list[str]:
    run_element(Jsonl(path=name), batches, outputs=folder)
    return (folder / name).read_text().splitlines()


def with_time(frame: Frame) -> Frame:
    return dataclasses.replace(frame, capture_ns=1_767_323_045_678_000_000)


def test_a_line_reads_to_the_letter_as_documented(tmp_path: Path) -> None:
    frame = with_time(make_frames(13)[12])
    crossing = Event("line", "gate_in", 0, {"direction": "in", "track_id": 5})
    line = written(tmp_path, Batch((frame,), one_car().with_columns(color=np.array(["red"]))).with_events([crossing]))[
        0
    ]
    assert line == (
        '{"stream":"cam","frame":12,"pts_ns":480000000,"time":"2026-01-02T03:04:05.678Z","size":[64,48],'
        '"objects":[{"label":"car","class_id":2,"confidence":0.871,"box":[1.1,2.25,30.33,40.0],"track_id":5,'
        '"attributes":{"color":"red"}}],'
        '"events":[{"kind":"line","rule":"gate_in","direction":"in","track_id":5}]}'
    )


@pytest.mark.parametrize("whose", list(TimeSource))
def test_a_time_says_whose_it_is(tmp_path: Path, whose: TimeSource) -> None:
    frame = dataclasses.replace(with_time(make_frames(1)[0]), time_source=whose)

    line = written(tmp_path, Batch((frame,)))[0]

    assert f'"time":"2026-01-02T03:04:05.678Z","time_source":"{whose}","size":' in line


def test_what_is_empty_is_left_out(tmp_path: Path) -> None:
    assert written(tmp_path, Batch(tuple(make_frames(1)))) == ['{"stream":"cam","frame":0,"pts_ns":0,"size":[64,48]}']


def test_an_object_without_a_track_has_no_track_id(tmp_path: Path) -> None:
    line = written(tmp_path, Batch(tuple(make_frames(1)), one_car(track_id=-1)))[0]
    assert "track_id" not in line


def test_not_a_number_is_never_written(tmp_path: Path) -> None:
    objects = one_car(confidence=float("nan")).with_columns(speed=np.array([np.nan], np.float32))
    thing = json.loads(written(tmp_path, Batch(tuple(make_frames(1)), objects))[0])["objects"][0]
    assert (thing["confidence"], "attributes" in thing) == (None, False)


def test_a_32_bit_attribute_is_written_without_noise(tmp_path: Path) -> None:
    objects = one_car().with_columns(speed=np.array([0.87], np.float32))
    assert '"attributes":{"speed":0.87}' in written(tmp_path, Batch(tuple(make_frames(1)), objects))[0]


def test_columns_of_vectors_and_private_columns_are_not_written(tmp_path: Path) -> None:
    objects = one_car().with_columns(embedding=np.ones((1, 4)), _key=np.ones(1))
    assert "attributes" not in written(tmp_path, Batch(tuple(make_frames(1)), objects))[0]


@pytest.mark.parametrize("size", [2, 5, 16])
def test_bytes_do_not_depend_on_batch_size(tmp_path: Path, size: int) -> None:
    frames = [*make_frames(7, stream="a"), *make_frames(7, stream="b")]
    frames.sort(key=lambda frame: frame.index)
    singles = [batch.with_objects(one_car()) for batch in make_batches(frames)]
    grouped = [
        batch.with_objects(Objects.concat([one_car(row) for row in range(len(batch))]))
        for batch in make_batches(frames, size=size)
    ]
    assert written(tmp_path, *grouped, name="many.jsonl") == written(tmp_path, *singles, name="single.jsonl")


def test_each_stream_gets_its_own_file_where_the_path_says_so(tmp_path: Path) -> None:
    frames = [make_frames(1, stream=name)[0] for name in ("gate", "yard 2")]
    run_element(Jsonl(path="out/{stream}.jsonl"), make_batches(frames, size=2), outputs=tmp_path)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["gate.jsonl", "yard_2.jsonl"]


def test_a_dash_means_standard_output(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    run_element(Jsonl(path="-"), [Batch(tuple(make_frames(1)))])
    assert capsysbinary.readouterr().out == b'{"stream":"cam","frame":0,"pts_ns":0,"size":[64,48]}\n'


def test_numpy_numbers_in_events_of_others_are_written(tmp_path: Path) -> None:
    event = Event("mine", "rule", 0, {"count": np.int64(3)})  # type: ignore[dict-item]
    assert (
        '{"kind":"mine","rule":"rule","count":3}'
        in written(tmp_path, Batch(tuple(make_frames(1))).with_events([event]))[0]
    )


def test_a_full_disk_is_one_clear_error() -> None:
    with pytest.raises(OutputError, match="the disk is full"):
        run_element(Jsonl(path="/dev/full"), [Batch(tuple(make_frames(1)))])


def context(folder: Path, *streams: str) -> CheckContext:
    return CheckContext(device=Device(), streams=streams, outputs=Outputs(folder))


@pytest.mark.parametrize(
    ("path", "streams", "expected"),
    [
        ("taken", ("a",), "folder: name a file"),
        ("file/out.jsonl", ("a",), "is no folder"),
        ("{stream}.jsonl", ("a b", "a_b"), "streams 'a b' and 'a_b' would write the same file"),
    ],
)
def test_a_path_that_can_not_work_is_a_problem(
    tmp_path: Path, path: str, streams: tuple[str, ...], expected: str
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").touch()
    problems = list(Jsonl(path=path).check(context(tmp_path, *streams)))
    assert [(expected in problem.message, problem.key) for problem in problems] == [(True, ("path",))]


def test_several_streams_may_share_a_file(tmp_path: Path) -> None:
    assert list(Jsonl(path="out.jsonl").check(context(tmp_path, "a", "b"))) == []
