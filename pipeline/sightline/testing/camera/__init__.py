"""A fake camera: a real RTSP server on the loopback whose faults are set on purpose.

It sends packets of bytes (`Clip`); `sightline_plugins.decode.clip_packets.load_clip` makes them of a video file.
"""

from sightline.rtsp.codec import Codec
from sightline.testing.camera.certificate import self_signed_certificate
from sightline.testing.camera.clip import Clip, ClipPacket
from sightline.testing.camera.faults import Faults, Sent
from sightline.testing.camera.mount import Mount
from sightline.testing.camera.options import CameraOptions
from sightline.testing.camera.script import Step
from sightline.testing.camera.server import FakeCamera

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
