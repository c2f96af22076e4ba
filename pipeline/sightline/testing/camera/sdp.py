"""Session descriptions (SDP, RFC 8866) of clips."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from sightline.testing.camera.clip import Clip, Codec

PAYLOAD_TYPES = {Codec.H264: 96, Codec.H265: 97, Codec.MJPEG: 26}
VIDEO, SOUND = "video", "sound"
"""The names under which the tracks of a session are set up."""

_NAMES = {Codec.H264: "H264", Codec.H265: "H265", Codec.MJPEG: "JPEG"}
_VPS, _SPS, _PPS = 32, 33, 34


def describe(clip: Clip, *, host: str, sound: bool) -> str:
    """The description of a session with that clip; `sound` promises a sound track before the video."""
    number = PAYLOAD_TYPES[clip.codec]
    lines = ["v=0", f"o=- 0 0 IN IP4 {host}", "s=fake camera", "c=IN IP4 0.0.0.0", "t=0 0", "a=control:*"]
    if sound:
        lines += ["m=audio 0 RTP/AVP 0", f"a=control:{SOUND}"]
    lines += [f"m=video 0 RTP/AVP {number}", f"a=rtpmap:{number} {_NAMES[clip.codec]}/90000"]
    if parameters := _parameters(clip):
        lines.append(f"a=fmtp:{number} {parameters}")
    lines += [f"a=framerate:{clip.fps:.3f}", f"a=control:{VIDEO}"]
    return "\r\n".join(lines) + "\r\n"


def _parameters(clip: Clip) -> str:
    if clip.codec is Codec.H264:
        profile = next(unit[1:4].hex() for unit in clip.parameter_sets if unit[0] & 0x1F == 7)
        return f"packetization-mode=1;profile-level-id={profile};sprop-parameter-sets={_sets(clip.parameter_sets)}"
    if clip.codec is Codec.H265:
        named = (("sprop-vps", _VPS), ("sprop-sps", _SPS), ("sprop-pps", _PPS))
        return ";".join(
            f"{name}={_sets([unit for unit in clip.parameter_sets if unit[0] >> 1 == kind])}" for name, kind in named
        )
    return ""


def _sets(units: Sequence[bytes]) -> str:
    return ",".join(b64encode(unit).decode() for unit in units)
