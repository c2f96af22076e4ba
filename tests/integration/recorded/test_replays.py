"""Runs that are recorded, replayed, and looked into: by the commands, on files and on cameras."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.graph import Message, MessageKind
from sightline.runtime.recording.file import Head, Kind, Recording, RecordWriter
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.disks import SmallDisk
from tests.integration.cli.conftest import Sightline, called, folder
from tests.waiting import wait_until

__all__ = ["called", "folder"]

ROOT = Path(__file__).parents[3]
SAMPLES, MODEL = ROOT / "sample_videos", ROOT / "models" / "street.onnx"
CAMERAS = ("street", "gate", "dusk", "entrance")
FRAMES = 25
STEPS = f"""
pipeline:
  - detect: {{model: {MODEL}, precision: fp32}}
  - track
  - zones: {{middle: {{polygon: [[0.2, 0.3], [0.8, 0.3], [0.8, 0.9], [0.2, 0.9]]}}}}
  - jsonl: {{path: out/all.jsonl}}
  - webhook: {{url: "http://127.0.0.1:9/events", headers: {{Authorization: "Bearer told-to-nobody"}}}}
"""


@pytest.fixture(scope="module")
def cameras() -> Iterator[dict[str, str]]:
    """Four cameras that ask for a password, and lose packets."""
    with ExitStack() as stack:
        urls = {}
        for name in CAMERAS:
            camera = stack.enter_context(FakeCamera(load_clip(str(SAMPLES / f"{name}.mp4")), credentials="me:s3cr3t"))
            camera.faults.loss = 0.002
            urls[name] = camera.login_url
        yield urls


def write_config(folder: Path, sources: dict[str, str]) -> None:
    lines = [
        f"  {name}: {{uri: '{uri}'{', stall_timeout: 5m' if '://' in uri else ''}}}" for name, uri in sources.items()
    ]
    (folder / "run.yaml").write_text("\n".join(["outbox: {linger: 0}", "sources:", *lines, STEPS]))


def test_a_run_of_four_cameras_is_equal_to_the_byte(cameras: dict[str, str], folder: Path, called: Sightline) -> None:
    write_config(folder, cameras)

    ran = called("run", "run.yaml", "--record", "run.slr", "--frames", str(FRAMES))
    replayed = called("replay", "run.slr", "--output-root", "again", "-q")

    assert "run.slr" in ran.stderr
    first = (folder / "out" / "all.jsonl").read_bytes()
    count = first.count(b"\n")
    assert 0 < count <= FRAMES * len(CAMERAS)
    assert (folder / "again" / "out" / "all.jsonl").read_bytes() == first
    assert replayed.stdout == f"replayed {count} frames of 4 streams: equal to what was recorded, to the bit\n"
    assert replayed.returncode == 0
    recorded = (folder / "run.slr").read_bytes()
    assert not any(secret in recorded for secret in (b"s3cr3t", b"told-to-nobody"))


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run of two files."""
    folder = tmp_path_factory.mktemp("recorded")
    sources = {name: str(SAMPLES / f"{name}.mp4") for name in ("street", "gate")}
    steps: list[Any] = [{"detect": {"model": str(MODEL), "precision": "fp32"}}, "track"]
    Pipeline(sources=sources, steps=steps, outputs=folder).run(frames=FRAMES, record="run.slr")
    return folder / "run.slr"


def test_results_that_differ_are_told_with_what_differs(recording: Path, tmp_path: Path, called: Sightline) -> None:
    """The model was exchanged since, and another version recorded."""
    read = Recording.read(recording)
    steps = [{"detect": {"model": str(MODEL), "precision": "fp32", "confidence": 0.6}}, "track"]
    other = tmp_path / "other.slr"
    head = Head(
        {**read.head.pipeline, "pipeline": steps},
        read.head.began_ns,
        {**read.head.versions, "sightline": "0.0.1"},
        {**read.head.files, str(MODEL): "0" * 64},
        {},
    )
    data = recording.read_bytes()
    with other.open("wb") as file:
        writer = RecordWriter(file)
        begin = writer.size_bytes
        writer.add(Kind.HEAD, read.head)
        old_size = writer.size_bytes - begin
    with other.open("wb") as file:
        RecordWriter(file).add(Kind.HEAD, head)
        file.write(data[begin + old_size :])

    replayed = called("replay", str(other), "-q")

    assert replayed.returncode == 1
    assert "other: sightline: 0.0.1 when it was recorded, " in replayed.stdout
    assert f"other: {MODEL} has other contents (SHA-256) than when it was recorded" in replayed.stdout
    assert "different: " in replayed.stdout
    assert f"sightline inspect {other} --frame " in replayed.stdout


def test_a_recording_that_was_cut_off_is_replayed_as_far_as_it_goes(
    recording: Path, tmp_path: Path, called: Sightline
) -> None:
    data = recording.read_bytes()
    (tmp_path / "cut.slr").write_bytes(data[: len(data) * 2 // 3])

    replayed = called("replay", "cut.slr", "-q")

    assert replayed.returncode == 0, replayed.stdout
    assert "note: the recording was cut off: it is replayed as far as it goes" in replayed.stdout
    assert "to the bit" in replayed.stdout


def test_how_a_frame_came_about_is_written_as_images(recording: Path, tmp_path: Path, called: Sightline) -> None:
    inspected = called("inspect", str(recording), "--frame", "street:20", "-o", "seen", "--json")

    assert inspected.returncode == 0, inspected.stderr
    plain = json.loads(inspected.stdout)
    assert (plain["stream"], plain["frame"]) == ("street", 20)
    detect, track = plain["steps"]
    kept = [box for box in detect["targets"][0]["boxes"] if box["kept"]]
    assert len(kept) == len(detect["after"]) > 5
    assert any(one["track_id"] is not None for one in track["after"])
    assert {path.name for path in (tmp_path / "seen").iterdir()} == {
        "00-frame.png",
        "01-detect-1-input.png",
        "01-detect-1-boxes.png",
        "01-detect-1-objects.png",
        "02-track-1-objects.png",
        "inspection.json",
    }


def test_images_are_not_written_over_files_of_others(recording: Path, tmp_path: Path, called: Sightline) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "seen" / "inspection.json").write_text("mine")

    inspected = called("inspect", str(recording), "--frame", "street:2", "-o", "seen")

    assert inspected.returncode == 1
    assert "inspection.json" in inspected.stderr
    assert (tmp_path / "seen" / "inspection.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("street", "must be a stream and the number of a frame, such as gate:812"),
        ("yard:3", "there is no stream 'yard'"),
        ("street:99", f"did not enter the steps; there are {FRAMES} frames from 0 to {FRAMES - 1}"),
    ],
)
def test_frames_that_are_not_there_are_told(recording: Path, wanted: str, why: str, called: Sightline) -> None:
    inspected = called("inspect", str(recording), "--frame", wanted)

    assert inspected.returncode != 0
    assert why in inspected.stderr


def test_a_recording_that_has_no_room_ends_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written whole before the disk was full is replayed."""
    disk = SmallDisk(tmp_path, capacity=3_000_000)
    monkeypatch.setattr("sightline.launch.Outputs", lambda _: disk)
    told: list[Message] = []
    pipeline = Pipeline(sources={"cam": {"pattern": "noise", "frames": 400}}, outputs=tmp_path)
    pipeline.on_message(told.append)

    report = pipeline.run(record="run.slr")

    assert report.frames == 400
    (text,) = [one.text for one in told if one.kind is MessageKind.WARNING]
    assert "the recording " in text
    assert "is not whole: No space left on device; the run goes on without it" in text
    read = Recording.read(tmp_path / "run.slr")
    assert not read.is_whole
    assert read.batches


def test_a_recorder_that_breaks_down_does_not_hold_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no pixels of rtsp://me:s3cr3t@gate")

    monkeypatch.setattr("sightline.runtime.recording.recorder._pixels", broken)
    told: list[Message] = []
    pipeline = Pipeline(sources={"cam": {"pattern": "bars", "frames": 200}}, outputs=tmp_path)
    pipeline.on_message(told.append)

    assert pipeline.run(record="run.slr").frames == 200
    (text,) = [one.text for one in told if one.kind is MessageKind.WARNING]
    assert "is not whole: RuntimeError: no pixels of rtsp://***@gate; the run goes on without it" in text


def test_a_recording_beside_a_file_of_somebody_else_is_refused(tmp_path: Path, called: Sightline) -> None:
    (tmp_path / "run.slr").write_text("mine")

    ran = called("run", "street.yaml", "--record", "run.slr")

    assert ran.returncode == 2
    assert "run.slr was not written by Sightline" in ran.stderr
    assert (tmp_path / "run.slr").read_text() == "mine"


def test_what_was_changed_meanwhile_is_told(tmp_path: Path, called: Sightline) -> None:
    pipeline = Pipeline(
        sources={"cam": {"pattern": "moving", "frames": None, "realtime": True}}, steps=["draw"], outputs=tmp_path
    )
    pipeline.start(record="run.slr")
    wait_until(lambda: any(one.frames > 3 for one in pipeline.status()))
    pipeline.change(lambda now: now.without_element("draw-1"), prove=0).wait()
    pipeline.stop()
    pipeline.wait()

    replayed = called("replay", "run.slr", "-q")

    assert "note: the run was not left alone: the steps were changed" in replayed.stdout


def test_a_run_that_asks_a_server_is_not_repeated(folder: Path, called: Sightline) -> None:
    describe = 'describe: {url: "http://127.0.0.1:9/v1", model: m, path: d.db, about: segments}'
    (folder / "run.yaml").write_text(f"sources: {{gate: {SAMPLES / 'gate.mp4'}}}\npipeline: [{{{describe}}}]\n")
    called("run", "run.yaml", "--record", "run.slr", "--frames", "3")

    for command in (["replay", "run.slr"], ["inspect", "run.slr", "--frame", "gate:1"]):
        refused = called(*command)
        assert refused.returncode == 2
        assert "a run with describe cannot be repeated: it would send images again" in refused.stderr
