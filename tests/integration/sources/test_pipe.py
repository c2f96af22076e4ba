"""Video through pipes: encoded and raw, from standard input and by name, cut off, empty, waited for."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.command_line import called
from tests.integration.sources.clips import write_clip
from tests.open_files import needs_descriptors, nothing_left_open

from sightline.devices import Device
from sightline.errors import StreamUnreadable
from sightline.graph import Message, Site
from sightline.media import Frame, Stream
from sightline.runtime.sources.examples import examples_of
from sightline.runtime.threads import Worker
from sightline.testing import run_source
from sightline_plugins.decode.pipe_input import PipeInput
from sightline_plugins.sources.file.element import Media
from sightline_plugins.sources.pipe.element import Pipe


class Writer(Worker):
    """Another program that writes into a pipe and closes it; it is content when nobody wants all of it."""

    def __init__(self, path: Path, data: bytes) -> None:
        super().__init__("writer")
        self._path, self._data = path, data
        self.written_bytes = 0

    def work(self) -> None:
        with self._path.open("wb", buffering=0) as pipe:
            while self.written_bytes < len(self._data):
                try:
                    self.written_bytes += pipe.write(self._data[self.written_bytes :]) or 0
                except BrokenPipeError:
                    return


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@contextmanager
def written(path: Path, data: bytes) -> Iterator[Writer]:
    writer = Writer(path, data)
    writer.start()
    try:
        yield writer
    finally:
        writer.join()


def read(fifo: Path, data: bytes, messages: list[Message] | None = None, **options: Any) -> list[Frame]:
    with written(fifo, data):
        return run_source(Pipe.model_validate({"uri": str(fifo), **options}), messages=messages)


@contextmanager
def standard_input(descriptor: int) -> Iterator[None]:
    """For a moment this process has another standard input."""
    before = os.dup(0)
    os.dup2(descriptor, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def same_images(frames: list[Frame], others: list[Frame]) -> bool:
    pairs = zip(frames, others, strict=True)
    return all(all(map(np.array_equal, one.surface.planes, two.surface.planes)) for one, two in pairs)


@pytest.mark.parametrize("suffix", ["ts", "mkv", "flv", "nut", "h264", "hevc"])
def test_encoded_video_has_the_frames_of_the_same_file(fifo: Path, tmp_path: Path, suffix: str) -> None:
    codec = "libx265" if suffix == "hevc" else "libx264"
    clip = write_clip(tmp_path / f"clip.{suffix}", count=12, codec=codec)
    expected = run_source(Media(uri=str(clip)))
    frames = read(fifo, clip.read_bytes())
    assert len(frames) == 12
    assert [frame.pts_ns for frame in frames] == [frame.pts_ns for frame in expected]
    assert same_images(frames, expected)


def test_repaired_timestamps_are_counted(fifo: Path, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.h264", count=6)
    with written(fifo, clip.read_bytes()):
        reader = Pipe(uri=str(fifo)).build(Site(device=Device()), stream=Stream("cam"))
        assert len(list(reader.frames())) == 6
    assert reader.repaired_timestamps == 6
    reader.close()


@pytest.mark.parametrize(("raw", "planes"), [("rgb24", 1), ("bgr24", 1), ("gray", 1), ("nv12", 2), ("yuv420p", 3)])
def test_raw_frames_are_the_bytes_that_came(fifo: Path, raw: str, planes: int) -> None:
    source = Pipe.model_validate({"uri": str(fifo), "raw": raw, "size": [51, 33], "fps": 12.5})
    assert source.frame_bytes is not None
    data = np.random.default_rng(1).integers(0, 256, (4, source.frame_bytes), np.uint8)
    frames = read(fifo, data.tobytes(), raw=raw, size=[51, 33], fps=12.5)
    assert [frame.pts_ns for frame in frames] == [0, 80_000_000, 160_000_000, 240_000_000]
    for frame, own in zip(frames, data, strict=True):
        assert len(frame.surface.planes) == planes
        assert np.array_equal(np.concatenate([plane.ravel() for plane in frame.surface.planes]), own)


def test_nothing_is_lost_when_frames_are_taken_slowly(fifo: Path) -> None:
    data = np.repeat(np.arange(200, dtype=np.uint8), 320 * 240).tobytes()
    source = Pipe.model_validate({"uri": str(fifo), "raw": "gray", "size": [320, 240]})
    reader = source.build(Site(Device()), stream=Stream("cam"))
    with written(fifo, data) as writer:
        frames = reader.frames()
        first = next(frames)
        waiting = writer.written_bytes  # of 15 MB: the kernel holds one at most, and PyAV what it has read
        rest = [int(frame.surface.planes[0][0, 0]) for frame in frames]
        reader.close()
    assert waiting < len(data) / 2
    assert [int(first.surface.planes[0][0, 0]), *rest] == list(range(200))


def test_a_frame_that_is_cut_off_is_left_out_with_a_warning(fifo: Path) -> None:
    messages: list[Message] = []
    frames = read(fifo, bytes(2 * 48 * 32 * 3 + 100), messages, raw="rgb24", size=[48, 32])
    assert len(frames) == 2
    assert any("100 bytes came, and a frame in rgb24 of 48x32 has 4608" in one.text for one in messages)


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        (b"", {}, "it ended without a byte"),
        (bytes(100), {"raw": "rgb24", "size": [48, 32]}, "ended after 100 bytes, and a frame in rgb24 of 48x32"),
        (b"no video at all\n" * 50, {}, "holds no video"),
    ],
)
def test_what_is_no_video_is_one_error(fifo: Path, data: bytes, options: dict[str, Any], said: str) -> None:
    with pytest.raises(StreamUnreadable, match=said):
        read(fifo, data, **options)


def test_an_mp4_with_its_index_at_the_end_says_how_to_write_it(fifo: Path, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", count=12).read_bytes()
    index = clip.rindex(b"moov") - 4
    far = (1 << 20).to_bytes(4, "big") + b"free" + bytes((1 << 20) - 8)  # farther back than FFmpeg keeps what it read
    with pytest.raises(StreamUnreadable, match="frag_keyframe"):
        read(fifo, clip[:index] + far + clip[index:])


def test_a_file_as_standard_input_is_read_whatever_its_index(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", count=12)
    with clip.open("rb") as file, standard_input(file.fileno()):
        frames = run_source(Pipe(uri="-"))
    assert same_images(frames, run_source(Media(uri=str(clip))))


def test_a_terminal_is_refused() -> None:
    ours, theirs = pty.openpty()
    with standard_input(theirs), pytest.raises(StreamUnreadable, match="terminal"):
        run_source(Pipe(uri="-"))
    os.close(ours)
    os.close(theirs)


@needs_descriptors
def test_a_pipe_that_nobody_writes_to_is_waited_for_until_it_is_stopped(fifo: Path) -> None:
    class FrameLoop(Worker):
        def work(self) -> None:
            self.frames = list(reader.frames())
            reader.close()

    with nothing_left_open():
        reader = Pipe(uri=str(fifo)).build(Site(Device()), stream=Stream("cam"))
        loop = FrameLoop("loop")
        loop.start()
        with fifo.open("wb", buffering=0):  # returns when it is open for reading
            reader.stop()
            loop.join()
    assert loop.frames == []


def test_a_second_reader_is_refused_and_the_first_one_reads_on(fifo: Path) -> None:
    first = PipeInput(str(fifo), stream="one")
    with pytest.raises(StreamUnreadable, match="read by another stream"):
        PipeInput(str(fifo), stream="two")
    with written(fifo, b"still there"):
        assert first.read(100) == b"still there"
    first.close()
    PipeInput(str(fifo), stream="three").close()


def test_one_stream_alone_reads_a_pipe(fifo: Path) -> None:
    config = fifo.with_name("p.yaml")
    config.write_text('sources: {gate: "-"}\npipeline: [jsonl: "{stream}.jsonl"]\n')
    assert called("check", str(config)).returncode == 0
    for twice, what in (("-", "standard input"), (str(fifo), f"the pipe {fifo}")):
        done = called("check", str(config), "--source", f"gate={twice}", "--source", f"yard={twice}")
        assert done.returncode == 2
        assert f"sources.yard: {what} can be read by one stream only, and 'gate' reads it already" in done.stderr
    done = called("check", str(config), "--set", "processes.count=2")
    assert "sources.gate: cannot be part of a pipeline in several processes" in done.stderr


def test_what_is_measured_at_the_first_start_takes_nothing_from_a_pipe(fifo: Path, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4")
    sources = {"gate": Pipe(uri=str(fifo)), "yard": Pipe(uri="-")}
    assert examples_of(sources, Site(Device())) is None

    examples = examples_of({**sources, "file": Media(uri=str(clip))}, Site(Device()))
    assert examples is not None
    assert examples.names == (repr(Media(uri=str(clip))),)
    assert list(examples.frames(2))


def test_the_command_reads_what_another_program_writes(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.ts", count=12)
    (tmp_path / "p.yaml").write_text('sources: {gate: none.mp4}\npipeline: [jsonl: "-"]\n')
    command = [sys.executable, "-m", "sightline.cli.main", "run", "-q", "p.yaml", "--source", "-"]
    done = subprocess.run(command, input=clip.read_bytes(), capture_output=True, cwd=tmp_path, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [json.loads(line)["frame"] for line in done.stdout.splitlines()] == list(range(12))
