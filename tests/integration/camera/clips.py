"""Clips for fake cameras, and an independent client that says what reaches it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.rtsp.payloads import Codec

logging.getLogger("libav").setLevel(logging.CRITICAL)

FPS = 25
_ENCODERS: Mapping[Codec, tuple[str, str, dict[str, str]]] = {
    Codec.H264: ("libx264", "yuv420p", {"preset": "ultrafast", "sc_threshold": "0"}),
    Codec.H265: ("libx265", "yuv420p", {"preset": "ultrafast", "x265-params": "log-level=none:scenecut=0"}),
    Codec.MJPEG: ("mjpeg", "yuvj420p", {"huffman": "default"}),
}
_SUFFIXES = {Codec.H264: ".mp4", Codec.H265: ".mp4", Codec.MJPEG: ".avi"}


def write_noise(
    path: Path,
    *,
    codec: Codec = Codec.H264,
    count: int = 50,
    key_every: int = 10,
    b_frames: int = 0,
    size_wh: tuple[int, int] = (160, 96),
) -> Path:
    """Write a clip of noise that moves, so that images need several packets; the same at every call."""
    encoder, pixel_format, defaults = _ENCODERS[codec]
    width, height = size_wh
    noise = np.random.default_rng(7).integers(16, 236, (height * 3 // 2, width), np.uint8)
    chosen = {"g": str(key_every), "bf": str(b_frames), **defaults}
    with av.open(path, "w") as container:
        stream = cast("VideoStream", container.add_stream(encoder, rate=FPS, options=chosen))
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format
        for number in range(count):
            frame = VideoFrame.from_ndarray(np.roll(noise, number, axis=1), pixel_format)
            frame.pts = number
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)
    return path


def noise_clip(
    folder: Path,
    *,
    codec: Codec = Codec.H264,
    count: int = 50,
    key_every: int = 10,
    b_frames: int = 0,
    size_wh: tuple[int, int] = (160, 96),
    suffix: str | None = None,
) -> Clip:
    """A clip of noise as a fake camera shows it."""
    path = folder / f"noise-{codec}-{count}-{key_every}-{b_frames}-{size_wh[0]}{suffix or _SUFFIXES[codec]}"
    write_noise(path, codec=codec, count=count, key_every=key_every, b_frames=b_frames, size_wh=size_wh)
    return load_clip(str(path))


@dataclass(slots=True)
class Watched:
    """What a client got: packets, and the images that came out of them. `error` is what ended it, None for an end
    in order.
    """

    codec: str = ""
    packets: list[bytes] = field(default_factory=list)
    packet_pts: list[int | None] = field(default_factory=list)
    images: list[VideoFrame] = field(default_factory=list)
    error: Exception | None = None

    @property
    def sizes_wh(self) -> list[tuple[int, int]]:
        """Sizes of images, each once, in order."""
        return list(dict.fromkeys((image.width, image.height) for image in self.images))


def watch(
    url: str,
    *,
    transport: str = "tcp",
    packets: int | None = None,
    limit_seconds: float = 300.0,
    during: Callable[[int], None] | None = None,
) -> Watched:
    """Read with PyAV until so many packets have come or the stream is over; `during` hears the count after each."""
    watched = Watched()
    options = {"rtsp_transport": transport, "analyzeduration": "100000"}
    try:
        with av.open(url, options=options, timeout=(limit_seconds, limit_seconds / 2)) as container:
            video = container.streams.video[0]
            watched.codec = video.codec_context.name
            video.codec_context.thread_type = "NONE"
            for packet in container.demux(video):
                if packet.size:
                    watched.packets.append(bytes(packet))
                    watched.packet_pts.append(packet.pts)
                watched.images += _decoded(packet)
                if during is not None:
                    during(len(watched.packets))
                if packets is not None and len(watched.packets) >= packets:
                    break
    except (av.error.FFmpegError, OSError) as error:
        watched.error = error
    return watched


def _decoded(packet: av.Packet[VideoStream]) -> list[VideoFrame]:
    try:
        return packet.decode()
    except av.error.FFmpegError:
        return []
