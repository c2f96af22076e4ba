"""A small RTSP server for tests: one H.264 clip over TCP interleaved (RFC 2326), sent as fast as the client reads."""

from __future__ import annotations

import base64
import socketserver
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import Self

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

_RTCP_TYPES = range(200, 208)
_SDP = "\r\n".join(
    (
        "v=0",
        "o=- 0 0 IN IP4 127.0.0.1",
        "s=test",
        "c=IN IP4 0.0.0.0",
        "t=0 0",
        "m=audio 0 RTP/AVP 0",
        "a=control:sound",
        "m=video 0 RTP/AVP 96",
        "a=rtpmap:96 H264/90000",
        "a=fmtp:96 packetization-mode=1",
        "a=control:video",
        "",
    )
)


class _Packets:
    """A file for FFmpeg's RTP muxer, which writes one packet at a time."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> int:
        self.written.append(bytes(data))
        return len(data)


def make_rtp(count: int, *, fps: int = 25, key_every: int = 10, size_wh: tuple[int, int] = (160, 96)) -> list[bytes]:
    """RTP packets, and the RTCP sender report before them, of a clip whose frame n has the luma 16 + 8 n."""
    return packetised(_flat_frames(count, size_wh=size_wh), fps=fps, key_every=key_every, size_wh=size_wh)


def packetised(frames: Iterable[VideoFrame], *, fps: int, key_every: int, size_wh: tuple[int, int]) -> list[bytes]:
    """RTP packets of frames in yuv420p, encoded as H.264 without B-frames."""
    packets = _Packets()
    with av.open(packets, "w", format="rtp", options={"payload_type": "96"}) as muxer:
        options = {"preset": "ultrafast", "tune": "zerolatency", "g": str(key_every), "sc_threshold": "0"}
        video: VideoStream = muxer.add_stream("libx264", rate=fps, options=options)
        (video.width, video.height), video.pix_fmt = size_wh, "yuv420p"
        for number, frame in enumerate(frames):
            frame.pts, frame.time_base = number, Fraction(1, fps)
            for packet in video.encode(frame):
                muxer.mux(packet)
        for packet in video.encode(None):
            muxer.mux(packet)
    return packets.written


def _flat_frames(count: int, *, size_wh: tuple[int, int]) -> Iterator[VideoFrame]:
    width, height = size_wh
    for number in range(count):
        planes = np.full((height * 3 // 2, width), 128, np.uint8)
        planes[:height] = 16 + 8 * number
        yield VideoFrame.from_ndarray(planes, "yuv420p")


@dataclass(frozen=True, slots=True)
class Camera:
    """What the server has: `rtp` is sent from `first` on at `path`; `holds` keeps the session open in silence at the
    end. With `credentials` (`user:password`) it asks for them.
    """

    rtp: list[bytes]
    path: str = "/cam"
    first: int = 0
    holds: bool = False
    credentials: str | None = None


class RtspServer:
    """Listens on a free port of the loopback until the `with` block ends."""

    def __init__(self, camera: Camera) -> None:
        self.camera = camera
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Session)
        self._server.daemon_threads = True
        self._server.camera = camera  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """Where the camera is."""
        return f"rtsp://{self.address}{self.camera.path}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Session(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        camera: Camera = self.server.camera  # type: ignore[attr-defined]
        try:
            for method, url, headers in self._requests():
                status, extra, body = self._answer(camera, method, url, headers)
                self._reply(status, headers.get("cseq", "0"), extra, body)
                if method == "PLAY" and status == "200 OK":
                    self._play(camera)
                    if not camera.holds:
                        return
        except (ConnectionError, ValueError):
            return  # the client went away

    def _requests(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        while line := self.rfile.readline():
            if line.startswith(b"$"):  # the client's own RTCP, of any length: nothing after it is wanted
                self.rfile.read()
                return
            if not line.strip():
                continue
            method, url, _ = line.decode().split(" ", 2)
            headers = {}
            while (text := self.rfile.readline().decode().strip()) and ":" in text:
                name, _, value = text.partition(":")
                headers[name.lower()] = value.strip()
            yield method, url, headers

    def _answer(
        self, camera: Camera, method: str, url: str, headers: dict[str, str]
    ) -> tuple[str, dict[str, str], str]:
        if not self._is_known(camera, headers):
            return "401 Unauthorized", {"WWW-Authenticate": 'Basic realm="test"'}, ""
        if method == "OPTIONS":
            return "200 OK", {"Public": "OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN"}, ""
        if camera.path not in url:
            return "404 Not Found", {}, ""
        if method == "DESCRIBE":
            return "200 OK", {"Content-Type": "application/sdp", "Content-Base": url + "/"}, _SDP
        if method == "SETUP":
            if "RTP/AVP/TCP" not in headers.get("transport", ""):
                return "461 Unsupported Transport", {}, ""
            return "200 OK", {"Transport": "RTP/AVP/TCP;unicast;interleaved=0-1", "Session": "1"}, ""
        return "200 OK", {"Session": "1"}, ""

    def _is_known(self, camera: Camera, headers: dict[str, str]) -> bool:
        if camera.credentials is None:
            return True
        wanted = base64.b64encode(camera.credentials.encode()).decode()
        return headers.get("authorization", "") == f"Basic {wanted}"

    def _reply(self, status: str, sequence: str, extra: dict[str, str], body: str) -> None:
        lines = [f"RTSP/1.0 {status}", f"CSeq: {sequence}", *(f"{name}: {value}" for name, value in extra.items())]
        lines.append(f"Content-Length: {len(body)}")
        self.wfile.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode())

    def _play(self, camera: Camera) -> None:
        for number, packet in enumerate(camera.rtp):
            is_rtcp = packet[1] in _RTCP_TYPES
            if is_rtcp or number >= camera.first:
                self.wfile.write(b"$" + bytes([is_rtcp]) + len(packet).to_bytes(2, "big") + packet)
