"""`sightline demo` writes a folder in which the documentation's examples run, and replaces nothing of anybody's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import pytest
from tests.integration.cli.conftest import command

from sightline_plugins.commands.demo.command import NEXT
from sightline_plugins.commands.demo.files import demo_files, demo_pipeline, write_demo


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
    """The demo, run once; in an empty folder it is run from the wheel (`tests/integration/release`)."""
    return called("demo", folder=place)


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


def test_the_demo_prints_counts_files_and_what_to_do_next(first: subprocess.CompletedProcess[str]) -> None:
    lines = [line.strip() for line in first.stderr.splitlines()]

    assert first.stdout == ""
    assert any(re.fullmatch(r"lines-1 street +road: in 12, out 10", line) for line in lines)
    assert "sightline-demo/out/demo/street.mp4" in lines
    assert [line.split("  ")[0] for line in lines[lines.index("next") + 1 :]] == [
        "cd sightline-demo",
        *(text for text, _ in NEXT),
    ]


@pytest.mark.parametrize("text", [text for text, _ in NEXT if "bench" not in text])
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


def test_the_pipeline_of_the_demo_is_that_of_the_repository_with_other_paths(repository: Path) -> None:
    original = (repository / "configs" / "demo.yaml").read_text()
    schema, *lines = demo_pipeline(original).splitlines()

    changed = [(before, after) for before, after in zip(original.splitlines(), lines, strict=True) if before != after]

    assert [after for _, after in changed] == [
        before.replace("../", "").replace("configs/", "") for before, _ in changed
    ]
    assert len(changed) == 4
    assert schema == "# yaml-language-server: $schema=sightline.schema.json"


def test_running_the_demo_again_keeps_its_files_and_writes_its_results_anew(folder: Path, earlier: Earlier) -> None:
    assert (folder / "models" / "street.onnx").stat().st_mtime_ns == earlier.model_ns
    assert len((folder / "out" / "demo" / "street.jsonl").read_bytes()) > 100 * len(earlier.results)


@pytest.mark.parametrize("name", ["demo.yaml", "models/street.yaml", "sample_videos/street.mp4"])
def test_a_file_that_is_not_the_demos_own_is_named_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    mine = tmp_path / "mine" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")

    done = called("demo", "mine", folder=tmp_path)

    assert done.returncode == 1
    assert f"mine holds other files where the demo puts its own: {name}." in done.stderr
    assert [path for path in (tmp_path / "mine").rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == "mine"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "demo.yaml").symlink_to(tmp_path / "elsewhere.yaml")

    done = called("demo", "mine", folder=tmp_path)

    assert (done.returncode, (tmp_path / "elsewhere.yaml").exists()) == (1, False)


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
