"""Load the encoded images of a video file for a fake camera; nothing is decoded or encoded."""

from __future__ import annotations

from collections.abc import Iterator

import av.error
from av.container import InputContainer
from av.video.stream import VideoStream

from sightline_plugins.codecs.bitstream import annex_b, container_parts, packet_units
from sightline_plugins.commands.camera.clip import Clip, ClipPacket, payloads
from sightline_plugins.decode.failures import failure, unreadable
from sightline_plugins.decode.open_media import OpenOptions, open_media, video_stream
from sightline_plugins.decode.timestamps import nanoseconds
from sightline_plugins.rtsp.payloads import Codec


def load_clip(path: str, *, stream_number: int = 0) -> Clip:
    """Load the images of a video file from its first key frame on, as they are encoded.

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
    codec = Codec.from_ffmpeg(context.name)
    if codec is None:
        cause = f"cameras send H.264, H.265 or MJPEG, and this is {context.name}: convert it"
        raise unreadable(f"{cause} (ffmpeg -i IN -c:v libx264 OUT.mp4)", stream=path, uri=path)
    length_size, sets = container_parts(context.name, bytes(context.extradata or b""))
    packets = list(_packets(container, video, length_size=length_size))
    clip = Clip.of(packets, codec=codec, size_wh=(context.width, context.height), parameter_sets=sets)
    payloads(clip.packets[0], clip=clip)  # raises ValueError when RTP cannot carry it
    return clip


def _packets(container: InputContainer, video: VideoStream, *, length_size: int) -> Iterator[ClipPacket]:
    begun = False
    for packet in container.demux(video):
        begun = begun or packet.is_keyframe
        if not begun or not packet.size:
            continue
        pts = packet.pts if packet.pts is not None else packet.dts
        if pts is None or video.time_base is None:
            raise ValueError("its images have no times; put it into an MP4 file")
        data = bytes(packet)
        yield ClipPacket(
            data=annex_b(packet_units(data, length_size=length_size)) if length_size else data,
            pts_ns=nanoseconds(pts, video.time_base),
            dts_ns=nanoseconds(pts if packet.dts is None else packet.dts, video.time_base),
            is_key=packet.is_keyframe,
        )
