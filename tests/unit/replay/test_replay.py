from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sightline.devices import Device
from sightline.graph import Capability, CheckContext, Outputs
from sightline.media import Batch, Objects, Origin
from sightline.testing import make_batches, make_frames, run_element
from sightline_plugins.replay.formats import RecordedFormat, RecordedObject, read_recording
from sightline_plugins.replay.replay import Replay
from sightline_plugins.sinks.jsonl import Jsonl

MOT = "1,7,10,20,30,40,0.9,-1,-1,-1\n2,-1,11,20,30,40,0.4\n\n2,-1,50,20,30,40,-1\n"
KITTI = (
    "0 3 Car -1 -1 -10 10 20 40 60 -1 -1 -1 -1000 -1000 -1000 -10 0.75\n"
    "0 -1 DontCare -1 -1 -10 1 2 3 4 -1 -1 -1 -1000 -1000 -1000 -10\n"
    "2 4 Van 0 0 -10 10 20 40 60 -1 -1 -1 -1000 -1000 -1000 -10\n"
)


def replayed(element: Replay, *, frames: int = 4, size: int = 1, stream: str = "cam") -> list[Objects]:
    batches = make_batches(make_frames(frames, stream=stream), size=size)
    return [view.objects for batch in run_element(element, batches) for view in batch]


def file(folder: Path, text: str, *, name: str = "det.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_mot_frames_count_from_one(tmp_path: Path) -> None:
    assert [len(found) for found in replayed(Replay(path=file(tmp_path, MOT)))] == [1, 2, 0, 0]


def test_mot_boxes_become_corners(tmp_path: Path) -> None:
    assert replayed(Replay(path=file(tmp_path, MOT)))[0][0].xyxy == (10, 20, 40, 60)


def test_a_mot_confidence_of_minus_one_means_none_was_given(tmp_path: Path) -> None:
    confidence = replayed(Replay(path=file(tmp_path, MOT)))[1].confidence
    np.testing.assert_array_equal(confidence, np.array([0.4, 1.0], np.float32))


def test_mot_objects_get_the_label_given(tmp_path: Path) -> None:
    assert replayed(Replay(path=file(tmp_path, MOT), label="person"))[0].labels() == ["person"]


def test_doubtful_objects_can_be_left_out(tmp_path: Path) -> None:
    assert len(replayed(Replay(path=file(tmp_path, MOT), confidence=0.5))[1]) == 1


def test_ids_are_taken_over_only_when_asked(tmp_path: Path) -> None:
    path = file(tmp_path, MOT)
    assert [replayed(Replay(path=path, ids=ids))[0][0].track_id for ids in (False, True)] == [None, 7]


def test_ids_make_a_replay_give_tracks() -> None:
    given = [Capability.TRACKS in Replay(path=Path("det.txt"), ids=ids).provided() for ids in (False, True)]
    assert given == [False, True]


def test_kitti_tracking_labels_are_read_without_what_it_does_not_care_for(tmp_path: Path) -> None:
    found = replayed(Replay(path=file(tmp_path, KITTI), ids=True))
    assert [(table.labels(), table.track_id.tolist()) for table in found] == [
        (["Car"], [3]),
        ([], []),
        (["Van"], [4]),
        ([], []),
    ]


def test_a_folder_holds_kitti_labels_of_each_frame(tmp_path: Path) -> None:
    file(tmp_path, "Car -1 -1 -10 10 20 40 60 -1 -1 -1 -1000 -1000 -1000 -10 0.5\n", name="00_000_000002.txt")
    file(tmp_path, "Car 9 0.0 0 0.0 10 20 40 60 0 0 0 0 0 0 0 0.5\n", name="00_000_000003.txt")
    found = replayed(Replay(path=tmp_path, ids=True))
    assert [table.track_id.tolist() for table in found] == [[], [], [-1], [9]]


def test_json_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    objects = Objects.from_columns(
        frame=[0, 0],
        xyxy=np.array([[1.25, 2, 30.33, 40], [5, 6, 7, 8]]),
        confidence=[0.871, 0.5],
        class_id=[2, 0],
        source=Origin("detect", ("person", "bicycle", "car")),
        track_id=[5, -1],
        extra={"color": np.array(["red", ""]), "speed": np.array([np.nan, 3.5])},
    )
    frames = make_frames(2)
    run_element(Jsonl(path="one.jsonl"), [Batch(tuple(frames), objects)], outputs=tmp_path)
    again = run_element(Replay(path=tmp_path / "one.jsonl", ids=True), make_batches(frames))
    run_element(Jsonl(path="two.jsonl"), again, outputs=tmp_path)
    assert (tmp_path / "two.jsonl").read_text() == (tmp_path / "one.jsonl").read_text()


def test_two_labels_of_one_number_both_come_back(tmp_path: Path) -> None:
    objects = [f'{{"label":"{label}","class_id":0,"confidence":1,"box":[0,0,1,1]}}' for label in ("car", "red car")]
    line = f'{{"stream":"a","frame":0,"objects":[{",".join(objects)}]}}'
    found = replayed(Replay(path=file(tmp_path, line)), stream="a")[0]
    assert (found.labels(), found.class_id.tolist()) == (["car", "red car"], [0, 0])


def test_a_stream_gets_its_own_lines_of_a_common_file(tmp_path: Path) -> None:
    text = "".join(
        f'{{"stream":"{name}","frame":0,"objects":[{{"label":"{name}","class_id":0,"confidence":1,"box":[0,0,1,1]}}]}}\n'
        for name in ("gate", "yard")
    )
    path = file(tmp_path, text, name="all.jsonl")
    assert [replayed(Replay(path=path), stream=name)[0].labels() for name in ("gate", "yard", "roof")] == [
        ["gate"],
        ["yard"],
        [],
    ]


@pytest.mark.parametrize("cut", [b'{"stream":"a","fra', '{"stream":"gef\u00e4'.encode()[:-1]])
def test_a_last_line_that_was_cut_is_passed_over(tmp_path: Path, cut: bytes) -> None:
    line = b'{"stream":"cam","frame":3,"objects":[{"label":"car","class_id":0,"confidence":1,"box":[0,0,1,1]}]}\n'
    (tmp_path / "det.jsonl").write_bytes(line + cut)
    assert [len(objects) for objects in replayed(Replay(path=tmp_path / "det.jsonl"))] == [0, 0, 0, 1]


def test_a_path_can_name_the_stream(tmp_path: Path) -> None:
    file(tmp_path, MOT, name="gate.txt")
    assert len(replayed(Replay(path=tmp_path / "{stream}.txt"), stream="gate")[0]) == 1


@pytest.mark.parametrize("size", [2, 4])
def test_objects_do_not_depend_on_batch_size(tmp_path: Path, size: int) -> None:
    element = Replay(path=file(tmp_path, MOT))
    boxes = [[found.xyxy.tolist() for found in replayed(element, size=size)] for size in (1, size)]
    assert boxes[0] == boxes[1]


def test_every_frame_counts_as_searched(tmp_path: Path) -> None:
    (batch,) = run_element(Replay(path=file(tmp_path, MOT)), [Batch(tuple(make_frames(3)))])
    assert batch.columns.detected == (True, True, True)


def test_objects_found_before_stay(tmp_path: Path) -> None:
    frame = make_frames(1)[0]
    before = Objects.from_columns(
        frame=[0], xyxy=[[0, 0, 1, 1]], confidence=[1], class_id=[0], source=Origin("other", ("dog",))
    )
    (batch,) = run_element(Replay(path=file(tmp_path, MOT)), [Batch((frame,), before)])
    assert batch.objects.labels() == ["dog", "object"]


def test_public_detections_are_all_read(shared_data: Path) -> None:
    found = replayed(Replay(path=shared_data / "truth" / "mot" / "TUD-Campus" / "det.txt"), frames=71, size=16)
    assert sum(map(len, found)) == 321


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("det.txt", "1,1,0,0,5,5,1\n1,1,0,0,5\n", "line 2: 5 fields: MOT text is frame,id,left"),
        ("det.txt", "1,1,0,x,5,5,1\n", "line 1: 'x' is no number"),
        ("det.txt", "1.5,1,0,0,5,5,1\n", "line 1: '1.5' is not an integer"),
        ("det.txt", "inf,1,0,0,5,5,1\n", "line 1: 'inf' is not an integer"),
        ("det.txt", "0,1,0,0,5,5,1\n", "line 1: there is no frame -1: the first is 0 (1 in MOT text)"),
        ("det.txt", "1,1,0,0,-5,5,1\n", "has a negative width or height"),
        ("det.txt", "1,1,0,nan,5,5,1\n", "a number is infinite or not a number"),
        ("det.txt", "0 1 Car 0 0\n", "line 1: 5 fields: KITTI tracking labels have 17"),
        ("det.jsonl", '{"stream":"a","frame":0}\n{"stream":"a"\n', "line 2: Input data was truncated"),
        ("det.jsonl", '{"stream":"a"}\n', "line 1: Object missing required field `frame`"),
        (
            "det.jsonl",
            '{"stream":"a","frame":0,"objects":[{"label":"a","class_id":99999,"confidence":1,"box":[0,0,1,1]}]}',
            "line 1: class_id is 99999",
        ),
    ],
)
def test_a_malformed_line_is_a_problem_with_its_place(tmp_path: Path, name: str, text: str, expected: str) -> None:
    context = CheckContext(device=Device(), streams=("cam",), outputs=Outputs(tmp_path))
    problems = list(Replay(path=file(tmp_path, text, name=name)).check(context))
    assert [(expected in problem.message, problem.key) for problem in problems] == [(True, ("path",))]


def test_a_recording_is_read_again_once_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = CheckContext(device=Device(), streams=("cam",), outputs=Outputs(tmp_path))
    element = Replay(path=file(tmp_path, MOT))
    reads: list[Path] = []

    def counted(path: Path, *, file_format: RecordedFormat | None, stream: str) -> list[RecordedObject]:
        reads.append(path)
        return read_recording(path, file_format=file_format, stream=stream)

    monkeypatch.setattr("sightline_plugins.replay.replay.read_recording", counted)

    assert [list(element.check(context)) for _ in range(2)] == [[], []]
    assert len(reads) == 1
    file(tmp_path, MOT + "1,1,0,x,5,5,1\n")
    assert ["is no number" in str(problem) for problem in element.check(context)] == [True]
    file(tmp_path, MOT)
    assert list(element.check(context)) == []


def test_a_missing_recording_of_a_stream_is_a_problem(tmp_path: Path) -> None:
    context = CheckContext(device=Device(), streams=("gate",), outputs=Outputs(tmp_path))
    (problem,) = Replay(path=tmp_path / "{stream}.txt").check(context)
    assert "gate.txt cannot be read: No such file" in problem.message


def test_a_folder_without_labels_is_a_problem(tmp_path: Path) -> None:
    context = CheckContext(device=Device(), streams=("gate",), outputs=Outputs(tmp_path))
    (problem,) = Replay(path=tmp_path).check(context)
    assert "holds no .txt file" in problem.message


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"path": "det.txt", "label": "car"}, {"car"}),
        ({"path": "det.txt", "format": "mot"}, {"object"}),
        ({"path": "det.txt"}, None),
        ({"path": "det.jsonl", "format": "jsonl"}, None),
    ],
)
def test_labels_are_known_where_they_do_not_depend_on_the_recording(
    options: dict[str, str], found: set[str] | None
) -> None:
    assert Replay.model_validate(options).found_labels() == found
