"""A fake camera: a real RTSP server on the loopback whose faults are set on purpose.

It sends packets of bytes (`Clip`); `sightline_plugins.commands.camera.packets.load_clip` makes them of a video file.
"""

from __future__ import annotations

from sightline_plugins.commands.camera.clip import Clip, ClipPacket, Faults, Mount, Sent
from sightline_plugins.commands.camera.server import FakeCamera, Step, self_signed_certificate
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.rtsp.payloads import Codec

__all__ = [
    "CameraOptions",
    "Clip",
    "ClipPacket",
    "Codec",
    "FakeCamera",
    "Faults",
    "Mount",
    "Sent",
    "Step",
    "self_signed_certificate",
]
