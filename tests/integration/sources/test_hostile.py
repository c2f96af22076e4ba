"""Inputs that are damaged, hostile or no video: an error that says what to do, or a count, and never more."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from tests.integration.sources.clips import write_bomb, write_clip, write_sound, write_sounds

from sightline.devices import Device
from sightline.errors import StreamError, StreamLost, StreamUnreadable
from sightline.graph import Site, SourceReader
from sightline.graph.messages import Message
from sightline.media import Frame, Stream
from sightline.testing import run_source
from sightline_plugins.sources.file.element import Media
from sightline_plugins.sources.images.element import Images

LIMIT_SECONDS = 300
NULL_PACKET = b"\x47\x1f\xff\x10" + b"\xff" * 184
"""What fills a transport stream."""


@pytest.fixture
def _computes_for_seconds() -> Iterator[None]:
    """That it does not compute for ever; that it does not wait for ever is seen to for every test."""
    begun = time.process_time()
    yield
    assert time.process_time() - begun < LIMIT_SECONDS


def read(uri: str, messages: list[Message] | None = None) -> tuple[list[Frame], SourceReader]:
    post = (lambda message: None) if messages is None else messages.append
    reader = Media(uri=uri).build(Site(device=Device(), post=post), stream=Stream("gate"))
    frames = list(reader.frames())
    reader.close()
    return frames, reader


@pytest.mark.usefixtures("_computes_for_seconds")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("chunk_out_of_range.mp4", "no video that can be read"),
        ("sample_malformed_free_box.mp4", "no video that can be read"),
        ("invalid_userdata.mp4", "promises 5544 frames, and not one is in it"),
        ("zero_empty_stsc.mp4", "none of its 2 packets can be decoded"),
        ("short-cenc.mp4", "encrypted"),
        ("invalid-bitstream.webm", "none of its 51 packets can be decoded"),
    ],
)
def test_a_file_without_one_image_is_an_error_that_names_stream_file_and_cause(
    shared_data: Path, name: str, words: str
) -> None:
    with pytest.raises(StreamUnreadable, match=words) as caught:
        read(str(shared_data / "videos/hostile" / name))
    assert "'gate'" in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.usefixtures("_computes_for_seconds")
@pytest.mark.parametrize(
    ("name", "frames", "damaged"),
    [("corrupted.mp4", 49, 1), ("sample_with_invalid_nalu.mp4", 29, 1), ("no_timescale.mp4", 170, 12)],
)
def test_a_packet_that_does_not_decode_costs_that_packet(
    shared_data: Path, name: str, frames: int, damaged: int
) -> None:
    messages: list[Message] = []
    got, reader = read(str(shared_data / "videos/hostile" / name), messages)
    assert (len(got), reader.damaged_packets) == (frames, damaged)
    assert any(f"{damaged} of " in message.text for message in messages)


def test_flipped_bytes_leave_most_frames_and_mark_damaged_ones(tmp_path: Path, shared_data: Path) -> None:
    data = bytearray((shared_data / "videos/street-cars-640x360.mp4").read_bytes())
    with av.open(str(shared_data / "videos/street-cars-640x360.mp4")) as container:
        spans = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    random = np.random.default_rng(1)
    for position, size in spans[40::40]:
        assert position is not None
        data[position + size // 2 + int(random.integers(size // 4))] ^= 0xFF
    (tmp_path / "flipped.mp4").write_bytes(data)
    frames, reader = read(str(tmp_path / "flipped.mp4"))
    assert len(frames) + reader.damaged_packets >= 480
    assert len(frames) >= 0.98 * 480


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".flv", ".ts"])
def test_a_truncated_file_gives_what_it_has(tmp_path: Path, suffix: str) -> None:
    whole = write_clip(tmp_path / f"whole{suffix}", count=200, b_frames=0)
    if suffix == ".mp4":  # the index stands at the end: put it first, or nothing can be read
        with (
            av.open(whole) as source,
            av.open(tmp_path / "first.mp4", "w", options={"movflags": "faststart"}) as target,
        ):
            stream = target.add_stream_from_template(source.streams.video[0])
            for packet in source.demux(video=0):
                if packet.dts is not None:
                    packet.stream = stream
                    target.mux(packet)
        whole = tmp_path / "first.mp4"
    data = whole.read_bytes()
    cut = tmp_path / f"cut{suffix}"
    cut.write_bytes(data[: len(data) * 6 // 10])
    messages: list[Message] = []
    frames, _ = read(str(cut), messages)
    assert 50 < len(frames) < 200
    if suffix != ".ts":  # a transport stream promises nothing
        assert any(f"{len(frames)} of 200 frames came" in message.text for message in messages)


def test_inputs_that_are_no_video_are_refused_with_their_cause(tmp_path: Path) -> None:
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("hello\n" * 100)
    (tmp_path / "text.txt").write_text("hello\n" * 100)
    (tmp_path / "random.mp4").write_bytes(np.random.default_rng(0).bytes(50_000))
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "list.mp4").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n")
    (tmp_path / "script.txt").write_text("ffconcat version 1.0\nfile /etc/passwd\n")
    write_sound(tmp_path / "sound.wav")
    os.mkfifo(tmp_path / "pipe.mp4")
    causes = {
        "missing.mp4": "no such file",
        "empty.mp4": "empty",
        "text.mp4": "no video",
        "text.txt": "of a kind that is not read",
        "random.mp4": "no video",
        "folder.mp4": "a folder",
        "list.mp4": "no video|of a kind that is not read",
        "script.txt": "no video|of a kind that is not read",
        "sound.wav": "no video|of a kind that is not read",
        "pipe.mp4": "a pipe",
    }
    for name, cause in causes.items():
        with pytest.raises(StreamUnreadable, match=cause):
            read(str(tmp_path / name))


def test_a_video_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StreamUnreadable, match="audio only"):
        read(str(write_sound(tmp_path / "sound.mkv")))


@pytest.mark.parametrize(
    "uri",
    ["concat:/etc/passwd|/etc/hosts", "subfile,,start,0,end,99,,:/etc/passwd", "data:text/plain,x", "pipe:0", "file:x"],
)
def test_other_protocols_of_ffmpeg_are_only_names_of_files_that_are_not_there(uri: str) -> None:
    with pytest.raises(StreamUnreadable, match="no such file"):
        read(uri)


@pytest.mark.parametrize("uri", ["concat://x", "gopher://host/x", "ftp://host/x.mp4"])
def test_a_scheme_that_is_not_allowed_is_named_with_those_that_are(uri: str) -> None:
    with pytest.raises(StreamUnreadable, match="allowed are file, http"):
        read(uri)


def test_a_server_that_is_not_there_is_a_loss_without_its_password() -> None:
    with pytest.raises(StreamLost, match="refused") as caught:
        read("http://admin:s3cret@127.0.0.1:9/clip.mp4?token=t0ken")
    assert not {"s3cret", "t0ken"} & set(str(caught.value).replace("?", " ").replace("=", " ").split())
    assert "s3cret" not in str(caught.value)


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    bomb = write_bomb(tmp_path / "bomb.png")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(StreamUnreadable, match="none of its images"):
        run_source(Images(uri=str(bomb)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024


def test_a_video_of_too_many_pixels_is_refused(tmp_path: Path) -> None:
    uri = str(write_clip(tmp_path / "large.mp4", count=2))
    with pytest.raises(StreamError, match="raise max_pixels"):
        run_source(Media(uri=uri, max_pixels=1000))


def test_streams_that_appear_in_the_middle_of_a_file_do_not_end_it(tmp_path: Path) -> None:
    video = write_clip(tmp_path / "video.ts", count=100, b_frames=0).read_bytes()
    sounds = write_sounds(tmp_path / "sounds.ts", count=40).read_bytes()
    # FFmpeg looks for streams in the first 5 MB and at the end.
    (tmp_path / "later.ts").write_bytes(video + 30_000 * NULL_PACKET + sounds + 10_000 * NULL_PACKET + video)
    frames, _ = read(str(tmp_path / "later.ts"))
    assert len(frames) == 200
