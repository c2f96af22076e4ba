"""The second, independent RTSP server: gst-rtsp-server, run by the system's own Python (`python3-gi` belongs to it).

    /usr/bin/python3 gst_server.py CLIP CODEC FPS WIDTHxHEIGHT PORT [USER PASSWORD]

CLIP is a byte stream of access units with start codes, before each of which its length stands in four bytes. They are
fed through `appsrc` with timestamps that go on, round and round. The port is printed when it listens; 0 takes a free
one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402  a version is chosen first

LAUNCH = {
    "h264": "( appsrc name=feed caps={caps} ! h264parse ! rtph264pay name=pay0 pt=96 config-interval=-1 )",
    "h265": "( appsrc name=feed caps={caps} ! h265parse ! rtph265pay name=pay0 pt=97 config-interval=-1 )",
    "mjpeg": "( appsrc name=feed caps={caps} ! rtpjpegpay name=pay0 pt=26 )",
}
CAPS = {
    "h264": "video/x-h264,stream-format=byte-stream,alignment=au,framerate={fps}/1",
    "h265": "video/x-h265,stream-format=byte-stream,alignment=au,framerate={fps}/1",
    "mjpeg": "image/jpeg,width={width},height={height},framerate={fps}/1",
}


def read_units(path: str) -> list[bytes]:
    """The access units of a clip."""
    content, at, units = Path(path).read_bytes(), 0, []
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        units.append(content[at + 4 : at + 4 + length])
        at += 4 + length
    return units


class Factory(GstRtspServer.RTSPMediaFactory):  # type: ignore[misc]
    """Makes the media of each client."""

    def __init__(self, units: list[bytes], *, codec: str, fps: int, size: str) -> None:
        super().__init__()
        width, _, height = size.partition("x")
        caps = CAPS[codec].format(fps=fps, width=width, height=height)
        self.set_launch(LAUNCH[codec].format(caps=caps))
        self.set_shared(True)
        self.units, self.fps = units, fps

    def do_configure(self, media: GstRtspServer.RTSPMedia) -> None:
        """Feed the clip from its beginning."""
        feed = media.get_element().get_child_by_name("feed")
        feed.set_property("format", Gst.Format.TIME)
        feed.set_property("is-live", True)
        feed.set_property("max-bytes", 0)
        sent = 0
        interval = Gst.SECOND // self.fps

        def push() -> bool:
            nonlocal sent
            buffer = Gst.Buffer.new_wrapped(self.units[sent % len(self.units)])
            buffer.pts = buffer.dts = sent * interval
            buffer.duration = interval
            sent += 1
            return bool(feed.emit("push-buffer", buffer) == Gst.FlowReturn.OK)

        GLib.timeout_add(1000 // self.fps, push)


def main(path: str, codec: str, fps: str, size: str, port: str, user: str = "", password: str = "") -> None:
    """Serve until killed."""
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(port)
    factory = Factory(read_units(path), codec=codec, fps=int(fps), size=size)
    if user:
        access = GstRtspServer.RTSPAuth()
        access.set_supported_methods(2)  # digest
        token = GstRtspServer.RTSPToken()
        token.set_string("media.factory.role", "viewer")
        access.add_digest(user, password, token)
        server.set_auth(access)
        factory.add_role_from_structure(
            Gst.Structure.new_from_string("viewer,media.factory.access=true,media.factory.construct=true")
        )
    server.get_mount_points().add_factory("/cam", factory)
    server.attach(None)
    sys.stdout.write(f"{server.get_bound_port()}\n")
    sys.stdout.flush()
    GLib.MainLoop().run()


if __name__ == "__main__":
    main(*sys.argv[1:])
