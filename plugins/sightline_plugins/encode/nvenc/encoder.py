"""One video on NVENC: images in GPU memory go in, packets with their times come out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import cast

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.devices.gpu.gpu import Gpu
from sightline.graph import EncodedFormat
from sightline.media import Surface
from sightline_plugins.encode.encoders import EncoderChoice, EncoderError
from sightline_plugins.encode.images import AV_MATRIX, AV_RANGE
from sightline_plugins.encode.muxer import Muxer
from sightline_plugins.encode.nvenc.colours import ColourTags
from sightline_plugins.encode.nvenc.library import EncodedImage, HardwareEncoder, NvencLibrary
from sightline_plugins.encode.nvenc.options import CODECS, options_of
from sightline_plugins.encode.nvenc.pace import Pace
from sightline_plugins.encode.nvenc.padding import without_padding
from sightline_plugins.encode.nvenc.same_format import as_format
from sightline_plugins.encode.settings import TIME_BASE, EncoderSettings, Layout


class NvencEncoder:
    """Encodes in GPU memory: a `ImageEncoder`. Raises EncoderError when the encoder cannot be made.

    Nothing waits for the pixels but the GPU: an image is copied into the encoder's memory in the order of its stream,
    and its own memory is not lent again before that is done. Times do not go through the encoder; there are no
    B-frames, so packets come out in the order in which their images went in, and that is checked.
    """

    def __init__(
        self, muxer: Muxer, *, first: Surface, settings: EncoderSettings, library: NvencLibrary, gpu: Gpu
    ) -> None:
        self.choice = EncoderChoice("NVENC", str(gpu))
        self._gpu = gpu
        self._stream = gpu.stream("encoding")
        self._format = first.format
        layout = Layout.of(first)
        self._hardware: HardwareEncoder | None = library.encoder(
            self._format, size_wh=layout.size_wh, stream=self._stream, options=options_of(settings)
        )
        codec = CODECS[settings.codec]
        self._tags = ColourTags(codec, layout=layout)
        self._video = _add_stream(
            muxer, codec, layout=layout, configuration=self._tags.on(self._hardware.configuration)
        )
        self._pace = None if settings.bitrate is None else Pace()
        self._inside: deque[int] = deque()
        self._given = 0

    def encode(self, surface: Surface, *, ticks: int, is_key: bool) -> Sequence[Packet[VideoStream]]:
        """What comes out when this image goes in."""
        assert self._hardware is not None
        here = as_format(surface, self._format).to_device(self._gpu, stream=self._stream)
        planes = without_padding(here.arrays_on(self._stream), gpu=self._gpu, stream=self._stream)
        if self._pace is not None and (fps := self._pace.note(ticks)) is not None:
            self._hardware.set_rate(fps)
        self._inside.append(ticks)
        return self._packets(self._hardware.encode(planes, is_key=is_key))

    def finish(self) -> Sequence[Packet[VideoStream]]:
        """What is left."""
        assert self._hardware is not None
        packets = self._packets(self._hardware.finish())
        if self._inside:
            raise EncoderError(f"NVENC gave {self._given} of {self._given + len(self._inside)} images")
        return packets

    def close(self) -> None:
        """Let go of the encoder, which waits for what it has in hand."""
        self._hardware = None

    def _packets(self, given: Sequence[EncodedImage]) -> list[Packet[VideoStream]]:
        packets = []
        for one in given:
            if not self._inside or one.number != self._given:
                raise EncoderError(f"NVENC gave the image {one.number} in the place of {self._given}")
            self._given += 1
            packet = cast("Packet[VideoStream]", Packet(self._tags.on(one.data) if one.is_key else one.data))
            packet.stream, packet.time_base = self._video, TIME_BASE
            packet.pts = packet.dts = self._inside.popleft()
            packet.is_keyframe = one.is_key
            packets.append(packet)
        return packets


def _add_stream(muxer: Muxer, codec: str, *, layout: Layout, configuration: bytes) -> VideoStream:
    video = muxer.add_encoded_stream(EncodedFormat(codec, layout.size_wh, TIME_BASE, configuration))
    video.codec_context.colorspace = AV_MATRIX[layout.matrix]
    video.codec_context.color_range = AV_RANGE[layout.range]
    return video
