from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.sinks.images import batches

from sightline.devices import Device
from sightline.graph import CheckContext, Element, Outputs
from sightline.media import Batch
from sightline.testing import make_frames, run_element
from sightline_plugins.replay.replay import Replay
from sightline_plugins.sinks.csv import Csv
from sightline_plugins.sinks.kitti import Kitti
from sightline_plugins.sinks.mot import Mot


def written(folder: Path, element: Element, given: Sequence[Batch], *, name: str = "out.txt") -> str:
    run_element(element, given, outputs=folder)
    return (folder / name).read_text()


def problems(element: Element, folder: Path, *streams: str) -> list[str]:
    context = CheckContext(device=Device(), streams=streams, outputs=Outputs(folder))
    return [problem.message for problem in element.check(context)]


def test_a_csv_row_holds_one_object(tmp_path: Path) -> None:
    assert written(tmp_path, Csv(path="out.txt"), batches(2)).splitlines() == [
        "stream,frame,pts_seconds,label,class_id,confidence,left,top,right,bottom,track_id",
        "cam,0,0.0,car,2,0.871,1.1,2.25,8.33,40.0,5",
        "cam,1,0.04,car,2,0.871,2.1,2.25,9.33,40.0,5",
    ]


def test_csv_leaves_the_track_empty_where_there_is_none(tmp_path: Path) -> None:
    assert written(tmp_path, Csv(path="out.txt"), batches(1, track_ids=(-1,))).endswith(",40.0,\n")


def test_csv_quotes_what_needs_it(tmp_path: Path) -> None:
    text = written(tmp_path, Csv(path="out.txt"), batches(1, stream='gate, "north"'))
    assert next(csv.DictReader(text.splitlines()))["stream"] == 'gate, "north"'


def test_streams_share_a_csv_file_under_one_header(tmp_path: Path) -> None:
    given = batches(1, stream="a") + batches(1, stream="b")
    assert [line.split(",")[0] for line in written(tmp_path, Csv(path="out.txt"), given).splitlines()] == [
        "stream",
        "a",
        "b",
    ]


def test_a_mot_line_counts_frames_from_one(tmp_path: Path) -> None:
    assert written(tmp_path, Mot(path="out.txt"), batches(2)).splitlines() == [
        "1,5,1.1,2.25,7.23,37.75,0.871,-1,-1,-1",
        "2,5,2.1,2.25,7.23,37.75,0.871,-1,-1,-1",
    ]


def test_mot_writes_detections_where_there_are_no_tracks(tmp_path: Path) -> None:
    text = written(tmp_path, Mot(path="out.txt"), batches(2, track_ids=(-1, -1)))
    assert [line.split(",")[1] for line in text.splitlines()] == ["-1"] * 4


@pytest.mark.parametrize("size", [1, 4])
def test_mot_takes_detections_back_when_the_first_track_appears(tmp_path: Path, size: int) -> None:
    given = batches(2, size=size, track_ids=(-1, -1)) + batches(2, size=size, track_ids=(-1, 7))
    assert [line.split(",")[1] for line in written(tmp_path, Mot(path="out.txt"), given).splitlines()] == ["7", "7"]


def test_mot_keeps_what_has_no_track_when_asked(tmp_path: Path) -> None:
    text = written(tmp_path, Mot(path="out.txt", untracked="keep"), batches(1, track_ids=(-1, 7)))
    assert [line.split(",")[1] for line in text.splitlines()] == ["-1", "7"]


def test_a_kitti_tracking_line_is_as_the_benchmark_has_it(tmp_path: Path) -> None:
    assert written(tmp_path, Kitti(path="out.txt"), batches(1)) == (
        "0 5 car -1 -1 -10 1.1 2.25 8.33 40.0 -1 -1 -1 -1000 -1000 -1000 -10 0.871\n"
    )


def test_a_blank_in_a_kitti_label_becomes_an_underscore(tmp_path: Path) -> None:
    assert written(tmp_path, Kitti(path="out.txt"), batches(1, class_id=1)).split()[2] == "traffic_light"


def test_kitti_detections_have_a_file_for_each_frame(tmp_path: Path) -> None:
    element = Kitti(path="{stream}/{frame}.txt", layout="detection")
    given = [*batches(1), Batch((make_frames(2)[1],))]
    text = written(tmp_path, element, given, name="cam/000000.txt")
    assert (text.split()[0], (tmp_path / "cam" / "000001.txt").read_text()) == ("car", "")


@pytest.mark.parametrize(
    ("element", "name"),
    [
        (Mot(path="out.txt"), "out.txt"),
        (Kitti(path="out.txt"), "out.txt"),
        (Kitti(path="{frame}.txt", layout="detection"), ""),
    ],
)
def test_what_was_written_can_be_replayed(tmp_path: Path, element: Element, name: str) -> None:
    given = batches(3)
    run_element(element, given, outputs=tmp_path)
    again = run_element(Replay(path=tmp_path / name, label="car"), [Batch(batch.frames) for batch in given])
    first, second = (
        written(tmp_path, Csv(path="table.csv"), some, name="table.csv").replace(",5\n", ",\n").replace(",2,", ",0,")
        for some in (given, again)
    )
    assert first == second


@pytest.mark.parametrize("kind", [Csv, Mot, Kitti])
@pytest.mark.parametrize("size", [2, 5])
def test_bytes_do_not_depend_on_batch_size(tmp_path: Path, kind: type[Csv | Mot | Kitti], size: int) -> None:
    single, grouped = (
        written(tmp_path, kind(path=f"{number}.txt"), batches(5, size=number, track_ids=(3, 4)), name=f"{number}.txt")
        for number in (1, size)
    )
    assert single == grouped


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (Mot(path="out.txt"), "2 streams would write the same file 'out.txt': put {stream} into the path"),
        (Mot(path="-", streams=("a",)), "say untracked: keep or drop"),
        (Kitti(path="out.txt"), "2 streams would write the same file"),
        (Kitti(path="{stream}.txt", layout="detection"), "put {frame} into the path"),
        (Kitti(path="{stream}-{frame}.txt"), "{frame} cannot be in the path"),
        (Csv(path="{strem}.csv"), "{strem} stands for nothing here; did you mean '{stream}'?"),
        (Csv(path="{date}.csv"), "{date} stands for nothing here; there is {stream}"),
        (Kitti(path="{stream}-{frme}{frame}.txt", layout="detection"), "{frme} stands for nothing here; did you mean"),
    ],
)
def test_a_path_that_does_not_fit_the_format_is_a_problem(tmp_path: Path, element: Element, expected: str) -> None:
    found = problems(element, tmp_path, "a", "b")
    assert [expected in message for message in found] == [True]
