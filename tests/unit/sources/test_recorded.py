"""Frames of a recording: the pixels, numbers and times that entered the recorded run."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.integration.camera.clips import write_noise

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline.media import Batch
from sightline.runtime.recording.file import Kind, Recording
from sightline_plugins.rtsp.payloads import Codec

Look = tuple[Any, ...]
COUNT = 40


def run(sources: dict[str, Any], **options: Any) -> dict[tuple[str, int], Look]:
    """What entered the steps, by stream and index."""
    seen: dict[tuple[str, int], Look] = {}

    def look(batch: Batch, _: Sequence[int]) -> None:
        for frame in batch.frames:
            surface, total = frame.surface, 0
            for plane in surface.planes:
                total = zlib.crc32(np.ascontiguousarray(plane).data, total)
            colors = surface.format, surface.matrix, surface.range, surface.size_wh
            facts = frame.pts_ns, frame.capture_ns, frame.damaged, frame.altered
            seen[frame.stream.name, frame.index] = (total, *colors, *facts)

    pipeline = Pipeline(sources=sources, device="cpu")
    pipeline.on_batches(look)
    pipeline.run(**options)
    return seen


def kinds(path: Path) -> set[Kind]:
    return {place.kind for places in Recording.read(path).contents for place in places}


@pytest.mark.parametrize("codec", ["h264", "h265", "mjpeg", "mpeg4"])
@pytest.mark.parametrize("options", [{}, {"rotate": 90, "max_fps": 10}, {"start": 0.3, "loop": 2}], ids=str)
def test_frames_of_files_come_as_they_came(codec: str, options: dict[str, Any], tmp_path: Path) -> None:
    clip = tmp_path / ("clip.avi" if codec in ("mjpeg", "mpeg4") else "clip.mp4")
    if codec == "mpeg4":
        write_mpeg4(clip)
    else:
        write_noise(clip, codec=Codec(codec), count=COUNT, key_every=10, b_frames=2 if codec == "h264" else 0)
    recording = tmp_path / "run.slr"

    came = run({"cam": {"uri": str(clip), **options}}, record=recording)

    assert len(came) >= 10
    assert run({"cam": {"uri": str(recording), "stream": "cam"}}) == came
    assert kinds(recording) == {Kind.INPUT, Kind.PACKET}


def write_mpeg4(path: Path) -> None:
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.codec_context.max_b_frames = 162, 90, 2
        for index in range(COUNT):
            image = np.random.default_rng(index).integers(0, 256, (90, 162, 3), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())


def test_pixels_are_kept_of_what_has_no_packets(tmp_path: Path) -> None:
    recording = tmp_path / "run.slr"

    came = run({"one": {"pattern": "noise", "frames": 5}, "two": {"pattern": "bars", "frames": 7}}, record=recording)

    assert len(came) == 12
    assert run({name: {"uri": str(recording), "stream": name} for name in ("one", "two")}) == came
    assert kinds(recording) == {Kind.PIXELS}


def test_a_recording_is_one_stream_for_each_of_its_own(tmp_path: Path) -> None:
    recording = tmp_path / "run.slr"
    sources = {"one": {"pattern": "counter", "frames": 5}, "two": {"pattern": "bars", "frames": 7}}
    came = run(sources, record=recording)

    again = run({"old": str(recording)})

    assert {(stream.removeprefix("old-"), index): look for (stream, index), look in again.items()} == came


def test_a_stream_that_was_not_recorded_is_told(tmp_path: Path) -> None:
    recording = tmp_path / "run.slr"
    run({"one": {"pattern": "bars", "frames": 2}}, record=recording)

    with pytest.raises(Exception, match=r"there is no stream 'two' in .*; streams: one"):
        run({"cam": {"uri": str(recording), "stream": "two"}})


def test_what_is_no_recording_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "run.slr").write_bytes(b"nothing")

    with pytest.raises(ConfigurationError, match="it is no recording"):
        run({"cam": str(tmp_path / "run.slr")})
