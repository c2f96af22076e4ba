"""Session descriptions (SDP, RFC 8866)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from sightline_plugins.rtsp.payloads import Codec

PAYLOAD_TYPES = {Codec.H264: 96, Codec.H265: 97, Codec.MJPEG: 26}
VIDEO, SOUND = "video", "sound"
"""The names under which the tracks of a session are set up."""

_NAMES = {Codec.H264: "H264", Codec.H265: "H265", Codec.MJPEG: "JPEG"}
_VPS, _SPS, _PPS = 32, 33, 34


def describe(
    codec: Codec,
    *,
    parameter_sets: Sequence[bytes],
    name: str,
    host: str,
    fps: float | None = None,
    sound: bool = False,
) -> str:
    """The description of a session of that name with one video track; `sound` promises a sound track before it.

    `parameter_sets` are NAL units without start codes.
    """
    number = PAYLOAD_TYPES[codec]
    family = "IP6" if ":" in host else "IP4"
    lines = ["v=0", f"o=- 0 0 IN {family} {host}", f"s={name}", "c=IN IP4 0.0.0.0", "t=0 0", "a=control:*"]
    if sound:
        lines += ["m=audio 0 RTP/AVP 0", f"a=control:{SOUND}"]
    lines += [f"m=video 0 RTP/AVP {number}", f"a=rtpmap:{number} {_NAMES[codec]}/90000"]
    if parameters := _parameters(codec, parameter_sets):
        lines.append(f"a=fmtp:{number} {parameters}")
    lines += [f"a=framerate:{fps:.3f}"] if fps is not None else []
    return "\r\n".join([*lines, f"a=control:{VIDEO}"]) + "\r\n"


def _parameters(codec: Codec, sets: Sequence[bytes]) -> str:
    if codec is Codec.H264:
        profile = next((unit[1:4].hex() for unit in sets if unit[0] & 0x1F == 7), None)
        if profile is None:
            return "packetization-mode=1"
        return f"packetization-mode=1;profile-level-id={profile};sprop-parameter-sets={_sets(sets)}"
    if codec is Codec.H265:
        named = (("sprop-vps", _VPS), ("sprop-sps", _SPS), ("sprop-pps", _PPS))
        return ";".join(f"{name}={_sets([unit for unit in sets if unit[0] >> 1 == kind])}" for name, kind in named)
    return ""


def _sets(units: Sequence[bytes]) -> str:
    return ",".join(b64encode(unit).decode() for unit in units)
