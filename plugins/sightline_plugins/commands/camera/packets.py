"""Encoded images of a file as the bytes that a fake camera sends; nothing is decoded or encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import av.error
from av.codec import CodecContext
from av.container import InputContainer
from av.packet import Packet
from av.video.stream import VideoStream

from sightline_plugins.codecs.bitstream import (
    annex_b,
    avcc_parts,
    hvcc_parts,
    is_annex_b,
    length_prefixed_units,
    nal_units,
)
from sightline_plugins.commands.camera.clip import Clip, ClipPacket, payloads
from sightline_plugins.decode.failures import failure, unreadable
from sightline_plugins.decode.open_media import OpenOptions, open_media, video_stream
from sightline_plugins.decode.timestamps import nanoseconds
from sightline_plugins.rtsp.payloads import Codec

_CODECS = {"h264": Codec.H264, "hevc": Codec.H265, "mjpeg": Codec.MJPEG}
_CONFIGURATIONS = {Codec.H264: avcc_parts, Codec.H265: hvcc_parts}


def load_clip(path: str, *, stream_number: int = 0) -> Clip:
    """The images of a video file from its first key frame on, as they are encoded.

    Raises StreamUnreadable when it cannot be read, or its codec is not H.264, H.265 or MJPEG as RTP carries it.
    """
    options = OpenOptions()
    container = open_media(path, stream=path, options=options)
    try:
        video = video_stream(container, number=stream_number, stream=path, uri=path, options=options)
        return _clip(container, video, path=path)
    except (av.error.FFmpegError, OSError) as error:
        raise failure(error, stream=path, uri=path) from None
    except ValueError as error:
        raise unreadable(str(error), stream=path, uri=path) from error
    finally:
        container.close()


def _clip(container: InputContainer, video: VideoStream, *, path: str) -> Clip:
    context = video.codec_context
    codec = _CODECS.get(context.name)
    if codec is None:
        raise unreadable(_wrong_codec(context.name), stream=path, uri=path)
    to_bytes, sets = _conversion(codec, context)
    packets = list(_packets(container, video, to_bytes))
    clip = Clip.of(packets, codec=codec, size_wh=(context.width, context.height), parameter_sets=sets)
    payloads(clip.packets[0], clip=clip)  # raises ValueError when RTP cannot carry it
    return clip


def _conversion(codec: Codec, context: CodecContext) -> tuple[Callable[[bytes], bytes], tuple[bytes, ...]]:
    """What makes Annex B of a packet, and the parameter sets outside of packets."""
    extradata = bytes(context.extradata or b"")
    if codec is Codec.MJPEG or not extradata:
        return bytes, ()
    if is_annex_b(extradata):
        return bytes, tuple(nal_units(extradata))
    size, sets = _CONFIGURATIONS[codec](extradata)
    return lambda data: annex_b(length_prefixed_units(data, length_size=size)), sets


def _packets(container: InputContainer, video: VideoStream, to_bytes: Callable[[bytes], bytes]) -> Iterator[ClipPacket]:
    begun = False
    for packet in container.demux(video):
        begun = begun or packet.is_keyframe
        if begun and packet.size:
            yield _clip_packet(packet, video, to_bytes)


def _clip_packet(packet: Packet[VideoStream], video: VideoStream, to_bytes: Callable[[bytes], bytes]) -> ClipPacket:
    pts = packet.pts if packet.pts is not None else packet.dts
    if pts is None or video.time_base is None:
        raise ValueError("its images have no times; put it into an MP4 file")
    dts = pts if packet.dts is None else packet.dts
    return ClipPacket(
        data=to_bytes(bytes(packet)),
        pts_ns=nanoseconds(pts, video.time_base),
        dts_ns=nanoseconds(dts, video.time_base),
        is_key=packet.is_keyframe,
    )


def _wrong_codec(name: str) -> str:
    return f"cameras send H.264, H.265 or MJPEG, and this is {name}: convert it (ffmpeg -i IN -c:v libx264 OUT.mp4)"
