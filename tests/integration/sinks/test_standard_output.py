"""Video on standard output: what its readers get, what may stand beside it, and what happens when they go."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from tests.command_line import called
from tests.conftest import REPOSITORY

from sightline.errors import OutputError
from sightline.graph import CheckContext
from sightline.media import Frame
from sightline.media.convert import rgb_from_surface
from sightline.testing import make_batches, make_frames, run_element
from sightline_plugins.sinks.video import Video

CLIP = REPOSITORY / "sample_videos" / "street.mp4"
INTERVAL_NS = 40_000_000


def piped(frames: list[Frame], capture: pytest.CaptureFixture[bytes], **options: object) -> bytes:
    run_element(Video.model_validate({"path": "-", **options}), make_batches(frames, size=3))
    return capture.readouterr().out


@pytest.mark.parametrize("form", [None, "matroska"])
def test_encoded_video_is_read_as_it_comes(form: str | None, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    frames = make_frames(10, size_wh=(64, 48))
    options = {} if form is None else {"format": form}
    with av.open(io.BytesIO(piped(frames, capsysbinary, quality=0, **options)), "r") as container:
        assert container.format.name.startswith(form or "mpegts")
        decoded = list(container.decode(video=0))
    times_ns = [round(float(one.pts * one.time_base) * 1e9) for one in decoded if one.pts and one.time_base]
    assert len(decoded) == 10
    assert np.abs(np.diff(times_ns) - INTERVAL_NS).max() <= 1_000_000
    assert np.array_equal(decoded[9].to_ndarray()[:48, :64], frames[9].surface.planes[0])


@pytest.mark.parametrize("count", [1, 5])
def test_y4m_has_every_frame_as_it_is(count: int, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    frames = make_frames(count, size_wh=(64, 48), fps=10 if count > 1 else 25)
    data = piped(frames, capsysbinary, format="y4m")
    with av.open(io.BytesIO(data), "r", format="yuv4mpegpipe") as container:
        assert container.streams.video[0].average_rate == (10 if count > 1 else 25)
        decoded = [one.to_ndarray() for one in container.decode(video=0)]
    assert len(decoded) == count
    for one, frame in zip(decoded, frames, strict=True):
        assert np.array_equal(one.ravel(), np.concatenate([plane.ravel() for plane in frame.surface.planes]))


@pytest.mark.parametrize(("form", "step"), [("rgb24", 1), ("bgr24", -1)])
def test_raw_frames_have_the_pixels_of_the_frame_and_nothing_else(
    form: str, step: int, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    frames = []
    for frame in make_frames(3, size_wh=(51, 33)):
        flat = tuple(np.full_like(plane, 90 + frame.index) for plane in frame.surface.planes)
        frames.append(replace(frame, surface=replace(frame.surface, pixels=flat)))
    data = np.frombuffer(piped(frames, capsysbinary, format=form), np.uint8).reshape(3, 33, 51, 3)
    for image, frame in zip(data, frames, strict=True):
        assert np.abs(image[..., ::step].astype(int) - rgb_from_surface(frame.surface)).max() <= 2


def test_a_change_of_size_is_an_error(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    first, second = make_frames(2, size_wh=(64, 48)), make_frames(4, size_wh=(32, 48))[2:]
    changed = [Frame(first[0].stream, one.index, one.pts_ns, one.surface) for one in second]
    with pytest.raises(OutputError, match="one video, and images that change to 32x48"):
        piped([*first, *changed], capsysbinary)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "a.mp4", "format": "y4m"}, "format is for standard output"),
        ({"path": "-", "format": "y4m", "quality": 3}, "y4m is not encoded: leave out quality"),
    ],
)
def test_options_without_effect_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Video.model_validate(options)


def test_standard_output_has_one_stream_and_is_not_begun_again(check_context: CheckContext) -> None:
    texts = [one.message for one in Video.model_validate({"path": "-", "on_error": "skip"}).check(check_context)]
    assert len(texts) == 2
    assert "one stream" in texts[0]
    assert "cannot begin again" in texts[1]
    assert not list(Video.model_validate({"path": "-", "streams": ["a"]}).check(check_context))


@pytest.fixture
def check_context() -> CheckContext:
    from sightline.devices import Device
    from sightline.graph import Outputs

    return CheckContext(device=Device(), streams=("a", "b"), outputs=Outputs(Path.cwd()))


def test_nothing_else_is_written_into_the_video(tmp_path: Path) -> None:
    config = tmp_path / "p.yaml"
    config.write_text(f'sources: {{gate: {CLIP}}}\npipeline: [jsonl: "-", video: "-"]\n')
    done = called("check", str(config))
    assert done.returncode == 2
    assert "pipeline.1.video.path: standard output would hold what pipeline.0.jsonl writes, too" in done.stderr
    config.write_text(f'sources: {{gate: {CLIP}}}\npipeline: [jsonl: "-", jsonl: "-"]\n')
    assert called("check", str(config)).returncode == 0
    config.write_text(f'sources: {{gate: {CLIP}}}\npipeline: [video: "-"]\n')
    done = called("run", str(config), "--report", "-")
    assert done.returncode == 2
    assert "--report - would stand in what a step `video` writes to standard output" in done.stderr


@pytest.mark.parametrize(
    "options", [("--set", "pipeline.jsonl.path=-", "--report", "-"), ("--set", "pipeline.csv.path=-")]
)
def test_standard_output_holds_one_thing(tmp_path: Path, options: tuple[str, ...]) -> None:
    config = tmp_path / "p.yaml"
    lines = "a.jsonl" if "--report" in options else "-"
    config.write_text(f'sources: {{gate: {CLIP}}}\npipeline: [jsonl: "{lines}", csv: a.csv]\n')

    done = called("run", str(config), *options)

    assert done.returncode == 2
    assert not done.stdout
    assert "standard output" in done.stderr


@pytest.mark.parametrize("step", ["jsonl", "video"])
def test_when_the_reader_goes_the_run_ends_quietly(tmp_path: Path, step: str) -> None:
    (tmp_path / "p.yaml").write_text(f'sources: {{gate: {{uri: {CLIP}, loop: true}}}}\npipeline: [{step}: "-"]\n')
    command = [sys.executable, "-m", "sightline.cli.main", "run", "-q", "p.yaml"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1000)
        process.stdout.close()
        assert process.wait(timeout=300) == 141
        assert process.stderr.read() == b""
