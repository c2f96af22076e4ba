"""Images of clips cut into RTP payloads."""

from __future__ import annotations

from sightline.rtsp.bitstream import is_h264_parameter_set, is_h265_parameter_set, nal_units
from sightline.rtsp.codec import Codec
from sightline.rtsp.payloads import MAX_PAYLOAD
from sightline.rtsp.payloads import payloads as payloads_of_units
from sightline.testing.camera.clip import Clip, ClipPacket


def payloads(packet: ClipPacket, *, clip: Clip, max_payload: int = MAX_PAYLOAD) -> tuple[bytes, ...]:
    """The RTP payloads of one image of a clip; a key frame brings the parameter sets."""
    if clip.codec is Codec.MJPEG:
        return payloads_of_units([packet.data], codec=clip.codec, max_payload=max_payload)
    units = list(nal_units(packet.data))
    is_set = is_h264_parameter_set if clip.codec is Codec.H264 else is_h265_parameter_set
    if packet.is_key and not any(map(is_set, units)):
        units = [*clip.parameter_sets, *units]
    return payloads_of_units(units, codec=clip.codec, max_payload=max_payload)
