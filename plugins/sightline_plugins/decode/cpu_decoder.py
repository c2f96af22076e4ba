"""Decoding on the CPU, by FFmpeg."""

from __future__ import annotations

from functools import partial

import av.error
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from sightline_plugins.decode.decoding import Decoded, DecoderChoice, Decoding, Image
from sightline_plugins.decode.orientation import UPRIGHT
from sightline_plugins.decode.surfaces import FrameSurfaces


class CpuDecoder:
    """FFmpeg's decoder of a stream: a `ImageDecoder`. Surfaces are views of its images, in host memory."""

    def __init__(self, video: VideoStream, *, decoding: Decoding, live: bool) -> None:
        context = video.codec_context
        context.thread_count = decoding.threads
        # Threads for frames cost a frame of delay each.
        several = "SLICE" if live else "AUTO"
        context.thread_type = "NONE" if decoding.threads == 1 else several
        self._context = context
        self._has_threads = decoding.threads != 1
        self._surfaces = FrameSurfaces(orientation=decoding.orientation)
        self.choice: DecoderChoice | None = DecoderChoice("cpu")

    def decode(self, packet: Packet[VideoStream]) -> Decoded:
        """The images that come out when this packet goes in; none when it is damaged."""
        try:
            frames = packet.decode()
        except (av.error.FFmpegError, OSError):
            return Decoded(damaged_packets=1)
        return Decoded([self._image(frame) for frame in frames])

    def restart(self) -> None:
        """The next packet is from elsewhere in the stream."""
        self._context.flush_buffers()

    def close(self) -> None:
        """Let go of what the decoder's threads hold."""
        if self._has_threads:
            # PyAV frees a decoder while it holds the GIL, which the decoder's threads want when they have to log.
            self._has_threads = False
            self._context.flush_buffers()

    def _image(self, frame: VideoFrame) -> Image:
        orientation = self._surfaces.follow(frame)
        return Image(
            frame.pts,
            frame.dts,
            is_corrupt=frame.is_corrupt,
            packet=frame.opaque if isinstance(frame.opaque, int) else None,
            surface=partial(self._surfaces.surface, frame, orientation=orientation),
            is_turned=orientation != UPRIGHT,
        )
