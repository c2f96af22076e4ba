"""What `video` accepts, refuses, and says before anything runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from sightline.devices import Device
from sightline.graph import CheckContext, Outputs, Problem
from sightline_plugins.encode.settings import ticks_from_ns
from sightline_plugins.sinks.video import Video


def problems(video: Video, *streams: str) -> list[Problem]:
    return list(video.check(CheckContext(Device(), streams, Outputs(Path("/root-of-outputs")))))


def test_a_path_with_the_streams_name_serves_any_number_of_streams() -> None:
    assert problems(Video(path="out/{stream}.mp4"), "a", "b") == []


def test_one_stream_needs_no_name_in_the_path() -> None:
    assert problems(Video(path="out.mkv"), "a") == []


def test_streams_that_share_a_file_are_a_problem() -> None:
    (problem,) = problems(Video(path="out.mp4"), "a", "b")

    assert problem.key == ("path",)
    assert "'a' and 'b' would both be written to /root-of-outputs/out.mp4" in problem.message


def test_streams_whose_names_become_the_same_file_are_a_problem() -> None:
    assert len(problems(Video(path="{stream}.mp4"), "a b", "a/b")) == 1


def test_streams_that_pass_by_do_not_count() -> None:
    assert problems(Video(path="out.mp4", streams=("a*",)), "a", "b") == []


@pytest.mark.parametrize("path", ["out.avi", "out", "out.mp4.txt"])
def test_a_suffix_without_a_container_is_a_problem(path: str) -> None:
    assert problems(Video(path=path), "a") == [Problem(f"{path!r} must end in .mp4 or .mkv", ("path",))]


def test_a_word_in_braces_that_stands_for_nothing_is_a_problem() -> None:
    told = [problem.message for problem in problems(Video(path="{straem}.mp4"), "a")]

    assert told == ["{straem} stands for nothing here; did you mean '{stream}'?"]


def test_a_path_that_leaves_the_output_folder_is_a_problem() -> None:
    assert "leaves the output folder" in problems(Video(path="../out.mp4"), "a")[0].message


@pytest.mark.parametrize(
    ("written", "bits"), [("2M", 2_000_000), ("800k", 800_000), ("1.5M", 1_500_000), (64000, 64000)]
)
def test_bit_rates_are_written_as_people_do(written: object, bits: int) -> None:
    assert Video.model_validate({"path": "a.mp4", "bitrate": written}).bitrate == bits


@pytest.mark.parametrize(
    "wrong",
    [
        {"bitrate": "fast"},
        {"bitrate": True},
        {"bitrate": 10},
        {"bitrate": "2M", "quality": 20},
        {"quality": 52},
        {"gop": "0s"},
        {"codec": "vp9"},
        {"preset": "quick"},
        {"path": ""},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Video.model_validate({"path": "a.mp4", **wrong})


def test_a_description_survives_being_written_and_read() -> None:
    video = Video.model_validate({"path": "a.mp4", "bitrate": "2M", "gop": "500ms"})

    assert Video.model_validate(video.model_dump(mode="json")) == video


def test_ticks_are_rounded_to_the_nearest() -> None:
    assert [ticks_from_ns(pts_ns) for pts_ns in (0, 5_555, 5_556, 41_708_333, -11_111)] == [0, 0, 1, 3754, -1]


def test_the_description_imports_no_codec() -> None:
    code = "import sys, sightline_plugins.sinks.video; print('av' in sys.modules, 'cv2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "False"]
