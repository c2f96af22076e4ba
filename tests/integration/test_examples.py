"""The programs in `examples/` run as their first lines say."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline_plugins import Video
from tests.conftest import REPOSITORY, missing
from tests.fakes import fake_cuda_device

CLIP = REPOSITORY / "sample_videos" / "entrance.mp4"
SECOND = 25


def run(name: str, *arguments: Path) -> list[str]:
    """The lines that an example prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(REPOSITORY / "examples" / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_people_are_counted_at_the_door(tmp_path: Path) -> None:
    if not (REPOSITORY / "models" / "street.onnx").exists():
        missing("no model of the sample world")
    Pipeline(sources={"clip": CLIP}, steps=[Video(path="clip.mp4", preset="ultrafast")], outputs=tmp_path).run(
        frames=3 * SECOND
    )

    lines = run("count_people.py", tmp_path / "clip.mp4")

    assert lines[-1].endswith("went")
    assert any(line.endswith("goes out") for line in lines), "somebody leaves within the first second"


def test_an_element_of_ones_own_finds_the_box_of_the_test_image() -> None:
    boxes = [f"{frame} bright ({4.0 * frame}, 67.0, {4.0 * frame + 80}, 112.0)" for frame in range(5)]

    assert run("own_element.py") == boxes


def test_a_kernel_of_ones_own_dims_frames_that_stay_on_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(REPOSITORY / "examples" / "own_kernel.py"))

    with fake_cuda_device() as gpu:
        example["main"](gpu)

    assert capsys.readouterr().out.splitlines() == [f"{frame} cuda 30.9" for frame in range(3)]


def test_a_function_of_ones_own_keeps_the_large_objects() -> None:
    lines = run("own_function.py")

    assert len(lines) == SECOND
    assert {int(line.split()[1]) for line in lines} <= set(range(2, 9))


def test_heads_of_ones_own_find_vehicles_and_say_their_colour() -> None:
    if not (REPOSITORY / "models" / "street.onnx").exists():
        missing("no model of the sample world")

    lines = [line.split() for line in run("own_head.py")]

    assert {label for _, label, _ in lines} >= {"car", "truck", "person"}
    assert all((colour == "-") == (label in ("person", "bicycle")) for _, label, colour in lines)


def test_two_pipelines_run_in_one_event_loop() -> None:
    assert run("async_frames.py") == ["left 40 frames, right 60 frames"]


def test_every_example_is_run_here_or_over_the_null_driver() -> None:
    text = Path(__file__).read_text() + (Path(__file__).parent / "gpu" / "test_pycuda.py").read_text()

    assert [path.name for path in (REPOSITORY / "examples").glob("*.py") if f'"{path.name}"' not in text] == []
