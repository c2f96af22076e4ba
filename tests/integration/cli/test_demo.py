"""`sightline demo` writes a folder in which the documentation's examples run, replaces nothing of anybody's, and shows
its cameras until it is interrupted.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import pytest
from tests.integration.cli.conftest import command
from tests.integration.server.conftest import ask, wait_for

from sightline.cli.main import execute
from sightline_plugins.commands.demo import command as demo
from sightline_plugins.commands.demo.files import LIVE, demo_files, demo_pipeline, write_demo


def called(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place")


@dataclass(frozen=True)
class Earlier:
    """What an earlier demo left: results that were cut short, and the time at which its model was written."""

    results: bytes
    model_ns: int


@pytest.fixture(scope="module")
def earlier(place: Path) -> Earlier:
    """A folder in which the demo ran before."""
    folder = place / "sightline-demo"
    write_demo(folder)
    results = b'{"stream":"street","frame":0,"pts_ns":0,"size":[768,432]}\n'
    (folder / "out" / "demo").mkdir(parents=True)
    (folder / "out" / "demo" / "street.jsonl").write_bytes(results)
    return Earlier(results, (folder / "models" / "street.onnx").stat().st_mtime_ns)


@pytest.fixture(scope="module")
def first(place: Path, earlier: Earlier) -> subprocess.CompletedProcess[str]:
    """The pipeline of files, run once; in an empty folder it is run from the wheel (`tests/integration/release`)."""
    return called("run", "demo.yaml", folder=place / "sightline-demo")


@pytest.fixture
def folder(place: Path, first: subprocess.CompletedProcess[str]) -> Path:
    assert first.returncode == 0, first.stderr
    return place / "sightline-demo"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def crossings(path: Path) -> Counter[tuple[str, str]]:
    events = [event for line in lines_of(path) for event in line.get("events", [])]
    return Counter((event["rule"], event["direction"]) for event in events if event["kind"] == "line")


@pytest.mark.parametrize("clip", ["street", "entrance"])
def test_the_demo_counts_what_crosses_the_lines_of_its_clips(folder: Path, repository: Path, clip: str) -> None:
    truth = json.loads((repository / "sample_videos" / f"{clip}.truth.json").read_text())["totals"]["lines"]

    found = crossings(folder / "out" / "demo" / f"{clip}.jsonl")

    assert found == Counter({(line, way): count for line, counts in truth.items() for way, count in counts.items()})


@pytest.mark.parametrize("clip", ["street", "entrance"])
def test_the_demo_counts_who_enters_the_zones_of_its_clips(folder: Path, repository: Path, clip: str) -> None:
    truth = json.loads((repository / "sample_videos" / f"{clip}.truth.json").read_text())["totals"]["zones"]

    entered = Counter(
        event["rule"]
        for line in lines_of(folder / "out" / "demo" / f"{clip}.jsonl")
        for event in line.get("events", [])
        if event.get("direction") == "enter"
    )

    assert entered == truth


@pytest.mark.parametrize("clip", ["street", "entrance"])
def test_the_demo_has_a_line_and_a_drawn_image_for_every_frame(folder: Path, repository: Path, clip: str) -> None:
    frames = json.loads((repository / "sample_videos" / f"{clip}.truth.json").read_text())["frames"]
    with av.open(str(folder / "out" / "demo" / f"{clip}.mp4")) as container:
        images = sum(1 for _ in container.decode(video=0))

    assert [line["frame"] for line in lines_of(folder / "out" / "demo" / f"{clip}.jsonl")] == list(range(frames))
    assert images == frames


def test_the_run_prints_counts_and_files(first: subprocess.CompletedProcess[str]) -> None:
    lines = [line.strip() for line in first.stderr.splitlines()]

    assert first.stdout == ""
    assert any(re.fullmatch(r"lines-1 street +road: in 12, out 10", line) for line in lines)
    assert "out/demo/street.mp4" in lines


@dataclass
class Shown:
    """The demo as it runs: its process, its port and token, and the folder that it was started in."""

    process: subprocess.Popen[str]
    port: int
    token: str
    place: Path

    def read(self, path: str) -> Any:
        return ask(self.port, f"/api/v1/pipelines/town{path}", token=self.token).json()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """The demo in an empty folder, with all streams live."""
    place = tmp_path_factory.mktemp("shown")
    arguments = command("demo", "--no-open", "--port", "0")
    environment = {name: value for name, value in os.environ.items() if name != "SIGHTLINE_TOKEN"}
    with subprocess.Popen(arguments, cwd=place, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            found = re.fullmatch(r"the dashboard: http://127\.0\.0\.1:(\d+)/\?token=(\w+)\n", first)
            assert found is not None, first + process.stderr.read()
            demo = Shown(process, int(found[1]), found[2], place)
            wait_for(lambda: ask(demo.port, "/readyz", token=demo.token).status == 200, seconds=300)
            yield demo
        finally:
            process.kill()


def test_the_cameras_of_the_demo_are_live_and_things_are_found(shown: Shown) -> None:
    states = {one["name"]: one["status"]["state"] for one in shown.read("/streams")}
    assert states == dict.fromkeys(("street", "entrance", "dusk", "gate"), "live")

    def tracked() -> bool:
        streams = shown.read("/counts")["streams"].values()
        return len(streams) == 4 and all(any(one["tracks"] for one in own["objects"].values()) for own in streams)

    wait_for(tracked, seconds=300)


def test_a_token_is_needed_to_steer_the_demo(shown: Shown) -> None:
    assert ask(shown.port, "/api/v1/pipelines").status == 401


def test_clips_of_the_demo_and_cameras_of_this_machine_can_be_added_to_it(shown: Shown) -> None:
    clip = {"uri": str(shown.place / "sightline-demo" / "sample_videos" / "dusk.mp4"), "loop": True, "realtime": True}
    path = "/api/v1/pipelines/town/streams/night"
    body = json.dumps(clip).encode()
    headers = {"Authorization": f"Bearer {shown.token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", shown.port, timeout=300)
    connection.request("PUT", path, body, headers)
    assert connection.getresponse().status == 200
    connection.close()

    wait_for(lambda: shown.read("/streams/night")["status"]["state"] == "live", seconds=300)


def test_ctrl_c_ends_the_demo_with_what_it_made_and_what_to_do_next(shown: Shown) -> None:
    """The last test that uses it."""
    recorded = shown.place / "sightline-demo" / "out" / "town"
    wait_for(lambda: list(recorded.glob("*.mp4")), seconds=300)

    shown.process.send_signal(signal.SIGINT)
    assert shown.process.stderr is not None
    lines = [line.strip() for line in shown.process.stderr.read().splitlines()]

    assert shown.process.wait(300) == 0
    assert any(re.fullmatch(r"recorded \d+ clips, \d+\.\d MB, in sightline-demo/out/town/", line) for line in lines)
    assert [line.split("  ")[0] for line in lines[lines.index("next") + 1 :]] == [
        "cd sightline-demo",
        *(text for text, _ in demo.NEXT),
    ]


def test_a_port_that_is_taken_is_replaced_unless_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(demo, "PORT", port)

        assert demo._address("127.0.0.1", None) == "127.0.0.1:0"
        assert demo._address("127.0.0.1", port) == f"127.0.0.1:{port}"
    assert demo._address("127.0.0.1", None) == f"127.0.0.1:{port}"


@pytest.mark.parametrize("text", [text for text, _ in demo.NEXT if "bench" not in text and "run" not in text])
def test_what_the_demo_proposes_runs_in_its_folder(folder: Path, text: str) -> None:
    done = called(*text.split()[1:], folder=folder)

    assert done.returncode == 0, done.stderr


def test_the_pipeline_of_the_readme_runs_in_the_folder(folder: Path, repository: Path, tmp_path: Path) -> None:
    text = re.search(r"```yaml\n(name: street\n.*?)```", (repository / "README.md").read_text(), re.DOTALL)
    assert text is not None
    (folder / "street.yaml").write_text(text[1])

    done = called("run", "street.yaml", "--frames", "5", "--output-root", str(tmp_path), folder=folder)

    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out" / "gate.jsonl").read_text().splitlines()) == 5


@pytest.mark.parametrize(("name", "count"), [("demo", 4), ("town", 7)])
def test_a_pipeline_of_the_demo_is_that_of_the_repository_with_other_paths(
    repository: Path, name: str, count: int
) -> None:
    original = (repository / "configs" / f"{name}.yaml").read_text()
    schema, *lines = demo_pipeline(original).splitlines()

    changed = [(before, after) for before, after in zip(original.splitlines(), lines, strict=True) if before != after]

    assert [after for _, after in changed] == [
        before.replace("../", "").replace("configs/", "") for before, _ in changed
    ]
    assert len(changed) == count
    assert schema == "# yaml-language-server: $schema=sightline.schema.json"


def test_changes_that_were_saved_to_the_pipeline_of_cameras_are_kept(tmp_path: Path) -> None:
    write_demo(tmp_path)
    edited = (tmp_path / LIVE).read_text().replace("road:", "street crossing:")
    (tmp_path / LIVE).write_text(edited)

    write_demo(tmp_path)

    assert (tmp_path / LIVE).read_text() == edited


def test_running_the_demo_again_keeps_its_files_and_writes_its_results_anew(folder: Path, earlier: Earlier) -> None:
    assert (folder / "models" / "street.onnx").stat().st_mtime_ns == earlier.model_ns
    assert len((folder / "out" / "demo" / "street.jsonl").read_bytes()) > 100 * len(earlier.results)


@pytest.mark.parametrize("name", ["demo.yaml", "town.yaml", "models/street.yaml", "sample_videos/street.mp4"])
def test_a_file_that_is_not_the_demos_own_is_named_and_nothing_is_written(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")

    assert execute(["demo", str(tmp_path / "mine")]) == 1

    assert f"mine holds other files where the demo puts its own: {name}." in capsys.readouterr().err
    assert [path for path in (tmp_path / "mine").rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == "mine"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "demo.yaml").symlink_to(tmp_path / "elsewhere.yaml")

    assert execute(["demo", str(tmp_path / "mine")]) == 1

    assert not (tmp_path / "elsewhere.yaml").exists()


def test_half_a_file_that_an_interruption_left_is_written_again(tmp_path: Path) -> None:
    write_demo(tmp_path)
    whole = tmp_path / "models" / "street.onnx"
    whole.rename(whole.with_name("street.onnx.part"))

    write_demo(tmp_path)

    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == set(demo_files())
    assert all((tmp_path / name).read_bytes() == content for name, content in demo_files().items())


def test_the_command_loads_neither_engine_nor_codec_for_its_help() -> None:
    code = (
        "import sys; from sightline.cli.main import execute; execute(['demo', '--help']);"
        "print([name for name in ('cv2', 'av', 'openvino', 'onnxruntime', 'numpy') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
