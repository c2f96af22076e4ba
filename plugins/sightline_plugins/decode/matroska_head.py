"""The beginning of a Matroska file as a description of one video stream: what its packets do not say themselves.

Parameter sets, tag, size, colours and orientation: what FFmpeg's decoder, and NVDEC's, get from the container.
"""

from __future__ import annotations

import io

import av
import av.error
from av.container import InputContainer
from av.packet import Packet
from av.video.stream import VideoStream

from sightline_plugins.codecs.packet import packet_of

_FORMAT = "matroska"


def head_of(packet: Packet[VideoStream]) -> bytes:
    """Return the description of the stream of a packet, which is in it because FFmpeg writes, and opens, none without;
    empty when Matroska cannot hold the codec.
    """
    video, file = packet.stream, io.BytesIO()
    try:
        with av.open(file, "w", format=_FORMAT) as container:
            copied = container.add_stream_from_template(video, opaque=True)
            block: Packet[VideoStream] = packet_of(bytes(packet))
            block.stream, block.is_keyframe = copied, True
            block.pts = block.dts = 0
            container.mux_one(block)
        head = file.getvalue()
        opened, _ = open_head(head, tag=video.codec_context.codec_tag)
        opened.close()
    except (av.error.FFmpegError, OSError, ValueError, IndexError):
        return b""
    return head


def open_head(head: bytes, *, tag: str) -> tuple[InputContainer, VideoStream]:
    """Return the stream that a description describes, with its decoder, and the container that it lives in. `tag` is
    the codec's tag, by which decoders of MPEG-4 tell encoders with faults; Matroska has none. Raises what PyAV raises.
    """
    container = av.open(io.BytesIO(head), "r", format=_FORMAT)
    video = container.streams.video[0]
    if tag.isascii():
        video.codec_context.codec_tag = tag
    return container, video
