"""Addresses with which somebody would make the server connect to, or read, what is not theirs.

In each text, `{file}` is a video outside the folders that may be read, `{folder}` its folder, `{inside}` the folder
that may be read; `{port}` and `{port6}` are servers on the loopback that nothing may connect to (IPv4, IPv6), `{udp}`
is such a port for UDP. `{evil}` is a server at an address that may be connected to, which answers as `by` says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.integration.sources.canaries import SDP, Answer, camera, rtsp_reply


@dataclass(frozen=True, slots=True)
class Hostile:
    """One address. `by` makes the answers of `{evil}`, given the ports and the file that it is to lead to.

    `works` says that the machine is reached, or the file read, where nothing is refused: the test sees something.
    """

    text: str
    works: bool = False
    by: Callable[[int, int, str], Answer] | None = None


def _redirect(status: str, to: str) -> Callable[[int, int, str], Answer]:
    def make(port: int, udp: int, file: str) -> Answer:
        location = f"Location: {to.format(port=port, udp=udp, file=file)}\r\n".encode()
        return camera(describe=lambda request: rtsp_reply(request, status=status.encode(), headers=location))

    return make


def _web(status: str, *, to: str = "", body: str = "") -> Callable[[int, int, str], Answer]:
    def make(port: int, udp: int, file: str) -> Answer:
        filled = body.format(port=port, udp=udp, file=file).encode()
        location = f"Location: {to.format(port=port, udp=udp, file=file)}\r\n" if to else ""
        head = (
            f"HTTP/1.1 {status}\r\n{location}Content-Type: application/x-mpegurl\r\nContent-Length: {len(filled)}\r\n"
        )
        return lambda request: f"{head}Connection: close\r\n\r\n".encode() + filled

    return make


def _described(address: str, control: str, *, source: str = "") -> Callable[[int, int, str], Answer]:
    def make(port: int, udp: int, file: str) -> Answer:
        sdp = SDP % (address.encode(), udp, control.format(port=port).encode())
        transport = f"Transport: RTP/AVP;unicast;client_port=6000-6001;{source};server_port={udp}-{udp + 1}\r\n"
        return camera(
            describe=lambda request: rtsp_reply(request, headers=b"Content-Type: application/sdp\r\n", body=sdp),
            setup=lambda request: rtsp_reply(request, headers=b"Session: 1\r\n" + transport.encode()),
        )

    return make


_PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{to}\n#EXT-X-ENDLIST\n"


def _playlist(to: str) -> str:
    return _PLAYLIST.replace("{to}", to)


FILES: tuple[Hostile, ...] = (
    Hostile("{file}", works=True),
    Hostile("file://{file}", works=True),
    Hostile("FILE://{file}", works=True),
    Hostile("file://localhost{file}", works=True),
    Hostile("file:{file}"),
    Hostile("{inside}/../outside/clip.mp4", works=True),
    Hostile("{inside}/link.mp4", works=True),
    Hostile("{inside}/links/clip.mp4", works=True),
    Hostile("{folder}", works=True),
    Hostile("{folder}/*.mp4", works=True),
    Hostile("{inside}/links/*.mp4", works=True),
    Hostile("{inside}/*/clip.mp4", works=True),
    Hostile("{inside}/%d/../../outside/clip.mp4"),
    Hostile("~/clip.mp4"),
    Hostile("concat:{file}|{file}"),
    Hostile("concat://{file}"),
    Hostile("subfile,,start,0,end,99,,:{file}"),
    Hostile("subfile,,start,0,end,99,,:{inside}/clip.mp4"),
    Hostile("data:video/mp4;base64,AAAA"),
    Hostile("-"),
    Hostile("pipe:0"),
    Hostile("pipe://0"),
    Hostile("fd://0"),
    Hostile("crypto+file://{file}"),
    Hostile("cache:{file}"),
    Hostile("async://{file}"),
    Hostile("/dev/stdin"),
    Hostile("/dev/video0"),
    Hostile("/proc/self/environ"),
    Hostile("{inside}/clip.mp4\0{file}"),
)
"""Ways to name a file, and ways of FFmpeg to read one."""

SCRIPTS: dict[str, str] = {
    "list.m3u8": _playlist("file:{file}"),
    "plain.m3u8": _playlist("{file}"),
    "list.mp4": _playlist("{file}"),
    "web.m3u8": _playlist("http://127.0.0.1:{port}/x.ts"),
    "master.m3u8": "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nhttp://127.0.0.1:{port}/x.m3u8\n",
    "key.m3u8": '#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="http://127.0.0.1:{port}/k"\n#EXTINF:1,\n{file}\n#EXT-X-ENDLIST\n',
    "concat.ffconcat": "ffconcat version 1.0\nfile '{file}'\n",
    "concat.mp4": "ffconcat version 1.0\nfile '{file}'\n",
    "camera.sdp": (SDP % (b"127.0.0.1", 5004, b"rtsp://127.0.0.1:1/t")).decode(),
    "dash.mpd": "<MPD><Period><BaseURL>http://127.0.0.1:{port}/</BaseURL></Period></MPD>",
    "smil.ram": "rtsp://127.0.0.1:{port}/x\n",
}
"""Files in the folder that may be read, which name others."""

ADDRESSES: tuple[Hostile, ...] = (
    *(
        Hostile(f"rtsp://{host}:{{port}}/x", works=True)
        for host in ("127.0.0.1", "localhost", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "0.0.0.0")
    ),
    Hostile("rtsp://[::ffff:127.0.0.1]:{port}/x", works=True),
    Hostile("rtsp://[::ffff:7f00:1]:{port}/x", works=True),
    Hostile("rtsp://[::1]:{port6}/x", works=True),
    Hostile("rtsp://[::]:{port6}/x", works=True),
    Hostile("RTSP://127.0.0.1:{port}/x", works=True),
    Hostile("rtsp://10.0.0.7@127.0.0.1:{port}/x", works=True),
    Hostile("rtsp://10.0.0.7:554@127.0.0.1:{port}/x", works=True),
    Hostile("rtsp://a@b@127.0.0.1:{port}/x", works=True),
    Hostile("rtsp://127.0.0.1:{port}#@10.0.0.7/x", works=True),
    Hostile("rtsp://127.0.0.1:{port}?@10.0.0.7/x", works=True),
    Hostile("rtsp://127.0.0.1:{port}\\@10.0.0.7/x"),
    Hostile("rtsp://127%2e0.0.1:{port}/x"),
    Hostile("rtsp://127.0.0.1:{port}/x\r\nX-Injected: 1", works=True),
    Hostile("rtsp://127。0。0。1:{port}/x"),
    Hostile("rtsp://169.254.169.254/latest/meta-data"),
    Hostile("rtsp://[fe80::1]/x"),
    Hostile("rtsp://[fd00:ec2::254]/x"),
    Hostile("rtsp://224.0.0.1/x"),
    Hostile("rtsp://rebinding.example:{port}/x", works=True),
    Hostile("http://127.0.0.1:{port}/x.mp4", works=True),
    Hostile("https://127.0.0.1:{port}/x.mp4", works=True),
    Hostile("tcp://127.0.0.1:{port}", works=True),
    Hostile("rtmp://127.0.0.1:{port}/x/y", works=True),
    Hostile("srt://127.0.0.1:{udp}"),
    Hostile("srt://127.0.0.1:{udp}?mode=caller&passphrase=0123456789"),
    Hostile("udp://127.0.0.1:{udp}?localport=1"),
    Hostile("rtp://127.0.0.1:{udp}"),
    Hostile("unix:///tmp/socket"),
    Hostile("tls://127.0.0.1:{port}"),
    Hostile("ftp://127.0.0.1:{port}/x.mp4"),
    Hostile("gopher://127.0.0.1:{port}/x"),
    Hostile("icecast://127.0.0.1:{port}/x"),
    Hostile("httpproxy://127.0.0.1:{port}/10.0.0.7:80"),
    Hostile("rtsp://${{CANARY_ADDRESS}}@127.0.0.1:{port}/x"),
    Hostile("rtsp://${{CANARY_ADDRESS:-127.0.0.1}}:{port}/x"),
)
"""Ways to write an address of this machine, and protocols that do more than read video."""

SERVERS: tuple[Hostile, ...] = (
    *(
        Hostile("rtsp://{evil}/x", works=True, by=_redirect(status, "rtsp://127.0.0.1:{port}/x"))
        for status in ("301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "399 X")
    ),
    Hostile("rtsp://{evil}/x", by=_redirect("302 Found", "http://127.0.0.1:{port}/x")),
    Hostile("rtsp://{evil}/x", by=_redirect("302 Found", "file://{file}")),
    Hostile("rtsp://{evil}/x", by=_described("127.0.0.1", "rtsp://127.0.0.1:{port}/t")),
    Hostile("rtsp://{evil}/x", by=_described("127.0.0.1", "t", source="source=127.0.0.1")),
    Hostile("http://{evil}/x.mp4", works=True, by=_web("302 Found", to="http://127.0.0.1:{port}/x.mp4")),
    Hostile("http://{evil}/x.mp4", works=True, by=_web("307 Temporary Redirect", to="http://127.0.0.1:{port}/x.mp4")),
    Hostile("http://{evil}/x.mp4", by=_web("302 Found", to="file://{file}")),
    Hostile("http://{evil}/x.m3u8", works=True, by=_web("200 OK", body=_playlist("http://127.0.0.1:{port}/x.ts"))),
    Hostile("http://{evil}/x.m3u8", by=_web("200 OK", body=_playlist("file://{file}"))),
    Hostile("http://{evil}/x.m3u8", by=_web("200 OK", body=_playlist("concat:{file}|{file}"))),
)
"""Servers at addresses that are allowed, which lead elsewhere."""
