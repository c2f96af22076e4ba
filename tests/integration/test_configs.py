"""Every file in `configs/` is right, and the main ones run by the command line."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import av
import pytest

from sightline.config import load_description
from sightline.graph import PipelineDescription
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.command_line import called
from tests.conftest import REPOSITORY, missing
from tests.integration.delivery.mosquitto import broker, subscriber
from tests.integration.describe.chat_server import running, says
from tests.integration.sources.clips import write_clip
from tests.waiting import wait_until

CONFIGS = sorted((REPOSITORY / "configs").glob("*.yaml"))
CLIPS = REPOSITORY / "sample_videos"
MODEL = REPOSITORY / "models" / "street.onnx"
ENVIRONMENT = {"CAMERA_URL": "rtsp://user:secret@127.0.0.1:1/main", "MODEL": str(MODEL)}

Lines = list[dict[str, Any]]
Tally = Counter[tuple[str, str]]


@pytest.fixture(scope="module")
def model() -> Path:
    """The detector of the sample world."""
    if not MODEL.exists():
        missing(f"no model at {MODEL}")
    return MODEL


def sightline(*arguments: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder; it must succeed."""
    done = called(*map(str, arguments), folder=folder, environment={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done


def config(name: str) -> Path:
    return REPOSITORY / "configs" / f"{name}.yaml"


def read_lines(path: Path) -> Lines:
    return [json.loads(line) for line in path.read_text().splitlines()]


def decode(path: Path) -> list[int]:
    """A sum over some of the luma of every image of a video."""
    with av.open(str(path)) as container:
        return [sum(bytes(image.planes[0])[::101]) for image in container.decode(video=0)]


def truth(clip: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CLIPS / f"{clip}.truth.json").read_text())
    return found


def true_counts(clip: str) -> Tally:
    """How often each line of a clip is crossed in each direction."""
    lines = truth(clip)["totals"]["lines"]
    return Counter({(name, way): count for name, counts in lines.items() for way, count in counts.items()})


def counted(lines: Lines) -> Tally:
    """How often JSON lines say that each line was crossed in each direction."""
    events = [event for line in lines for event in line.get("events", []) if event["kind"] == "line"]
    return Counter((event["rule"], event["direction"]) for event in events)


def described(path: Path) -> PipelineDescription:
    return load_description(path, environment=ENVIRONMENT)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_is_right(path: Path, model: Path) -> None:
    assert described(path).sources


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_configuration_is_named_after_its_file(path: Path, model: Path) -> None:
    assert described(path).name == path.stem


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_rules_stand_where_the_truth_of_the_clips_has_them(path: Path, model: Path) -> None:
    known: dict[str, list[list[float]]] = {}
    for clip in ("street", "entrance", "dusk", "gate"):
        known |= {line["name"]: [line["from"], line["to"]] for line in truth(clip)["lines"]}
        known |= {zone["name"]: zone["polygon"] for zone in truth(clip)["zones"]}
    plain = [element.model_dump(mode="json", by_alias=True) for _, element in described(path).elements()]
    rules = [(name, rule) for options in plain for name, rule in options.items() if isinstance(rule, dict)]
    used = {name: rule.get("polygon") or [rule["from"], rule["to"]] for name, rule in rules if name in known}

    assert used == {name: known[name] for name in used}


def test_the_demo_writes_what_its_report_counts(model: Path, tmp_path: Path) -> None:
    """Its first frames; all of them are counted in the folder of the demo (`cli/test_demo.py`)."""
    sightline("run", config("demo"), "--frames", "100", "--report", "report.json", folder=tmp_path)

    totals = json.loads((tmp_path / "report.json").read_text())["totals"]
    for number, clip in enumerate(("street", "entrance"), start=1):
        lines = read_lines(tmp_path / f"out/demo/{clip}.jsonl")
        drawn = decode(tmp_path / f"out/demo/{clip}.mp4")
        counts = {
            (name, way): count for name, ways in totals[f"lines-{number}"][clip].items() for way, count in ways.items()
        }
        assert [line["frame"] for line in lines] == list(range(100))
        assert +Counter(counts) == counted(lines)
        assert len(drawn) == 100
        assert drawn != decode(CLIPS / f"{clip}.mp4")[:100]


@pytest.mark.parametrize("clip", ["street"])
def test_replayed_truth_is_counted_exactly(tmp_path: Path, clip: str) -> None:
    sightline("run", config("replay"), folder=tmp_path)

    assert counted(read_lines(tmp_path / f"out/replay/{clip}.jsonl")) == true_counts(clip)


def test_a_recording_can_be_replayed_again(tmp_path: Path) -> None:
    sightline("run", config("replay"), "--frames", "40", folder=tmp_path)
    first = (tmp_path / "out/replay/street.jsonl").rename(tmp_path / "recorded.jsonl")
    change = f"pipeline.replay={{path: {first}, format: jsonl}}"
    sightline("run", config("replay"), "--frames", "40", "--set", change, folder=tmp_path)

    assert (tmp_path / "out/replay/street.jsonl").read_bytes() == first.read_bytes()


def test_branches_join_and_end(model: Path, tmp_path: Path) -> None:
    sightline("run", config("tee-and-parallel"), "--frames", "40", folder=tmp_path)

    lines = read_lines(tmp_path / "out/branches/street.jsonl")
    labels = {thing["label"] for line in lines for thing in line["objects"]}
    assert labels & {"person", "bicycle"}
    assert labels & {"car", "van", "truck", "bus"}
    assert not any("events" in line for line in lines)
    plain, drawn = (
        decode(tmp_path / "out/branches/street-plain.mp4"),
        decode(tmp_path / "out/branches/street-drawn.mp4"),
    )
    assert len(plain) == len(drawn) == len(lines) == 40
    assert plain != drawn


def test_objects_are_followed_on_frames_that_the_network_does_not_see(model: Path, tmp_path: Path) -> None:
    sightline("run", config("every-third-frame"), "--frames", "60", folder=tmp_path)

    lines = read_lines(tmp_path / "out/every-third-frame/street.jsonl")
    between = [thing for line in lines if line["frame"] % 3 for thing in line.get("objects", [])]
    assert len(lines) == 60
    assert between
    assert all("track_id" in thing for thing in between)


def test_vehicles_are_counted_and_nothing_else(model: Path, tmp_path: Path) -> None:
    sightline("run", config("count-vehicles"), "--frames", "40", folder=tmp_path)

    for clip in ("street", "dusk"):
        header, *rows = (tmp_path / f"out/vehicles/{clip}.csv").read_text().splitlines()
        label = header.split(",").index("label")
        assert {row.split(",")[label] for row in rows} <= {"car", "van", "truck", "bus"}
        assert len(read_lines(tmp_path / f"out/vehicles/{clip}.jsonl")) == 40


def test_a_wall_shows_all_clips_and_what_is_drawn_on_them(tmp_path: Path) -> None:
    sightline("run", config("wall"), "--frames", "40", "--report", "report.json", folder=tmp_path)

    totals = json.loads((tmp_path / "report.json").read_text())["totals"]
    wall = decode(tmp_path / "out/wall/wall.mp4")
    # Images come at the 25 frames a second of `street` for 1.6 s, then at those of the clips that take longer.
    assert len(wall) == totals["wall"]["wall"]["images"] == 58
    assert len(set(wall)) == len(wall), "something moves in every image"


def test_a_shop_is_watched(model: Path, tmp_path: Path) -> None:
    sightline("run", config("shop"), "--frames", "200", "--report", "report.json", folder=tmp_path)

    totals = json.loads((tmp_path / "report.json").read_text())["totals"]
    lines = read_lines(tmp_path / "out/shop/entrance.jsonl")
    begun = Counter(event["kind"] for line in lines for event in line.get("events", []) if event["state"] != "present")
    assert begun == {"absence": totals["absence-1"]["entrance"]["counter"]["absences"], "crowd": 1}
    assert begun["absence"] > 0
    assert totals["crowd-1"]["entrance"]["floor"]["crowds"] == 1
    assert totals["queue-1"]["entrance"]["till"]["longest_queue"] > 0


def test_a_model_of_ones_own_needs_its_labels_and_nothing_else(shared_data: Path, tmp_path: Path) -> None:
    sightline(
        "run",
        config("bring-your-own-model"),
        "--frames",
        "30",
        "--set",
        f"pipeline.detect.labels={shared_data}/models/coco80.names",
        folder=tmp_path,
        MODEL=str(shared_data / "models" / "FastestDet.onnx"),
        VIDEO=str(shared_data / "videos" / "street-cars-640x360.mp4"),
    )

    lines = read_lines(tmp_path / "out/own-model/clip.jsonl")
    assert "car" in {thing["label"] for line in lines for thing in line.get("objects", [])}
    assert len(decode(tmp_path / "out/own-model/clip.mp4")) == len(lines) == 30


def test_a_camera_is_read_and_written_down(model: Path, tmp_path: Path) -> None:
    clip = load_clip(str(write_clip(tmp_path / "clip.mp4", count=24, key_every=4, b_frames=0)))
    with FakeCamera(clip, credentials="user:secret") as camera:
        done = sightline("run", config("camera"), "--frames", "4", folder=tmp_path, CAMERA_URL=camera.login_url)

    assert len(read_lines(tmp_path / "out/camera/camera.jsonl")) > 0
    assert "secret" not in done.stdout + done.stderr


def test_events_are_delivered_to_a_broker(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    with broker(tmp_path / "broker") as server, subscriber(server, "sightline/#") as reader:
        sightline("run", config("deliver-events"), folder=tmp_path, MQTT_URL=f"mqtt://127.0.0.1:{server.port}")
        states = "sightline/street/status"
        wait_until(lambda: [one.body["state"] for one in reader.of(states)][-1:] == ["ended"])
        events = [one.body for one in reader.of("sightline/street/events")]
        *_, last = [one.body for one in reader.of("sightline/street/counts")]

    assert Counter((one["rule"], one["data"]["direction"]) for one in events) == true_counts("street")
    assert last["lines"] == truth("street")["totals"]["lines"]


def test_a_model_describes_crossings_and_verifies_alarms(tmp_path: Path) -> None:
    with running(says("Yes, a vehicle crosses.")) as server:
        sightline("run", config("describe"), "--frames", "60", folder=tmp_path, VLM_URL=server.url)

    found = [event for line in read_lines(tmp_path / "out/describe/street.jsonl") for event in line.get("events", ())]
    alarms = [event for event in found if event["rule"] == "crossing" and event.get("direction") == "enter"]
    assert {event["verified"] for event in alarms} == {"confirmed"}
    assert list((tmp_path / "out/describe").glob("street-*.jpg"))
