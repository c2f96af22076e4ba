"""`networks`: a source is read from these networks only, whatever its server wants."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.integration.sources.attempts import count
from tests.integration.sources.canaries import SDP, Answer, camera, hearing, rtsp_reply, serving
from tests.integration.sources.clips import write_clip
from tests.ports import free_port

from sightline.devices import Device
from sightline.errors import ConfigurationError, StreamLost, StreamRefused
from sightline.graph import Site
from sightline.media import Stream
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera, self_signed_certificate
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.sources.file.element import Media
from sightline_plugins.sources.live.rtsp import Rtsp

HERE = ("127.0.0.0/8",)
ONCE = CameraOptions(passes=1)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    path: Path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    return load_clip(str(write_clip(path, count=30, key_every=5, b_frames=0)))


def test_a_camera_in_the_networks_is_read_as_without_them(clip: Clip) -> None:
    with FakeCamera(clip, options=ONCE, credentials="me:secret") as shown:
        confined, how = count(Rtsp(uri=shown.login_url, networks=HERE))
        assert confined == count(Rtsp(uri=shown.login_url))[0] == 30
        assert "ended the stream" in how
        assert "401" in count(Rtsp(uri=shown.url, networks=HERE))[1]


def test_a_camera_with_tls_is_read_too(clip: Clip, tmp_path: Path) -> None:
    with FakeCamera(clip, options=ONCE, certificate=self_signed_certificate(tmp_path)) as shown:
        assert count(Rtsp(uri=shown.url, networks=HERE))[0] == 30


def test_a_camera_elsewhere_is_refused_before_anything_is_sent_to_it() -> None:
    with serving() as canary:
        for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"):
            frames, how = count(Rtsp(uri=f"rtsp://me:secret@{host}:{canary.port}/x", networks=("private", "public")))
            assert (frames, canary.connections) == (0, 0), host
            assert "(loopback) is in none of its networks (private, public)" in how
            assert "secret" not in how


def test_the_address_that_was_checked_is_the_one_connected_to(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name service of the attacker's own gives another address whenever it is asked."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: str, port: int, *rest: object, **options: object) -> Sequence[object]:
        if host != "rebinding.example":
            return real(host, port, *rest, **options)  # type: ignore[arg-type]
        asked.append(host)
        return real("127.0.0.1" if len(asked) == 1 else "127.0.0.2", port, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    with FakeCamera(clip, options=ONCE) as shown:
        uri = shown.url.replace("127.0.0.1", "rebinding.example")
        assert count(Rtsp(uri=uri, networks=("127.0.0.1/32",)))[0] == 30
        assert "127.0.0.2 (loopback)" in count(Rtsp(uri=uri, networks=("127.0.0.1/32",)))[1]
    assert len(asked) == 2


def test_a_name_without_address_is_a_loss_and_so_is_a_closed_port() -> None:
    for uri, words in (
        ("rtsp://no-such-host.invalid/x", "no address is known"),
        (f"rtsp://127.0.0.1:{free_port()}/x", "refused"),
    ):
        reader = Rtsp(uri=uri, networks=HERE).build(Site(device=Device()), stream=Stream("gate"))
        with pytest.raises(StreamLost, match=words):
            next(reader.frames())
        reader.close()


def redirecting(status: bytes, location: bytes) -> Answer:
    return camera(describe=lambda request: rtsp_reply(request, status=status, headers=location))


Lead = Callable[[int], Answer]
"""A server that leads to a port on the loopback."""

REDIRECTS: dict[str, Lead] = {
    "moved": lambda port: redirecting(b"301 Moved", b"Location: rtsp://127.0.0.1:%d/x\r\n" % port),
    "found": lambda port: redirecting(b"302 Found", b"Location: rtsp://127.0.0.1:%d/x\r\n" % port),
    "any status": lambda port: redirecting(b"399 X", b"location: rtsp://127.0.0.1:%d/x\r\n" % port),
    "leading zeros": lambda port: redirecting(b"0302 X", b"Location: rtsp://127.0.0.1:%d/x\r\n" % port),
    "sign": lambda port: redirecting(b"+302 X", b"Location: rtsp://127.0.0.1:%d/x\r\n" % port),
    "no space": lambda port: redirecting(b"302 X", b"Location:rtsp://127.0.0.1:%d/x\r\n" % port),
    "another protocol": lambda port: redirecting(b"302 X", b"Location: http://127.0.0.1:%d/x\r\n" % port),
    "tls": lambda port: redirecting(b"302 X", b"Location: rtsps://127.0.0.1:%d/x\r\n" % port),
    "carriage return within": lambda port: redirecting(b"30\r2 X", b"Loc\ration: rtsp://127.0.0.1:%d/x\r\n" % port),
    "at the first request": lambda port: (
        lambda request: rtsp_reply(request, status=b"302 X", headers=b"Location: rtsp://127.0.0.1:%d/x\r\n" % port)
    ),
    "behind a frame of data": lambda port: camera(
        describe=lambda request: (
            b"$\0\0\x08Content-"
            + rtsp_reply(
                request, status=b"302 X", headers=b"$\0\0\x08Content-Location: rtsp://127.0.0.1:%d/x\r\n" % port
            )
        )
    ),
    "no address": lambda port: redirecting(b"302 X", b""),
    "at SETUP": lambda port: camera(
        describe=lambda request: rtsp_reply(
            request, headers=b"Content-Type: application/sdp\r\n", body=SDP % (b"0.0.0.0", 0, b"t")
        ),
        setup=lambda request: rtsp_reply(
            request, status=b"302 X", headers=b"Location: rtsp://127.0.0.1:%d/x\r\n" % port
        ),
    ),
}

NOT_FOLLOWED = ("another protocol", "tls", "no address", "at SETUP")
"""What FFmpeg does not follow today; it is seen to that it stays so."""


@pytest.mark.parametrize("name", REDIRECTS)
def test_a_redirect_is_followed_without_networks_and_refused_with_them(name: str) -> None:
    with serving() as canary, serving(REDIRECTS[name](canary.port)) as server:
        uri = f"rtsp://127.0.0.1:{server.port}/x"
        frames, how = count(Rtsp(uri=uri, networks=HERE))
        assert (frames, canary.connections) == (0, 0)
        assert "redirects" in how or name == "at SETUP"
        count(Rtsp(uri=uri))
        if name in NOT_FOLLOWED:
            return
        assert canary.connections, "the test sees nothing: FFmpeg does not follow this at all"


@pytest.mark.parametrize("where", ["the Transport of SETUP", "the description"])
def test_no_packet_is_sent_where_a_camera_wants_it(where: str) -> None:
    def setup(request: bytes) -> bytes:
        transport = b"Transport: RTP/AVP;unicast;client_port=6000-6001;source=127.0.0.1;server_port=%d-%d\r\n"
        return rtsp_reply(request, headers=b"Session: 1\r\n" + transport % (port, port + 1))

    def describe(request: bytes) -> bytes:
        body = SDP % (b"127.0.0.1", port, b"rtsp://127.0.0.1:%d/t" % canary.port)
        return rtsp_reply(request, headers=b"Content-Type: application/sdp\r\n", body=body)

    with hearing() as (port, packets), serving() as canary:
        answer = camera(describe=describe, setup=setup if where != "the description" else None)
        with serving(answer) as server:
            uri = f"rtsp://127.0.0.1:{server.port}/x"
            assert count(Rtsp(uri=uri, networks=HERE, stall_timeout="200ms"))[0] == 0
            assert (canary.connections, packets()) == (0, 0)
            if where != "the description":
                count(Rtsp(uri=uri, transport="udp", stall_timeout="200ms"))
                assert packets(), "the test sees nothing: FFmpeg does not send packets there at all"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[int, bytes]]:
    data = write_clip(tmp_path / "clip.mkv", count=20).read_bytes()

    def answer(request: bytes) -> bytes:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: video/x-matroska\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        return head % len(data) + data

    with serving(answer) as server:
        yield server.port, data


def test_a_file_is_read_over_http_from_the_server_that_was_checked(
    web: tuple[int, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    frames, how = count(Media(uri=f"http://localhost:{web[0]}/clip.mkv", networks=HERE))
    assert (frames, how) == (20, "")


def test_the_server_is_asked_for_by_its_own_name() -> None:
    with serving() as server:
        count(Media(uri=f"http://localhost:{server.port}/clip.mkv", networks=HERE))
        assert b"\r\nHost: localhost:%d\r\n" % server.port in server.received[0]


def test_neither_redirects_nor_playlists_of_a_web_server_are_followed() -> None:
    with serving() as canary:
        there = b"http://127.0.0.1:%d/x.ts" % canary.port
        playlist = b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n" + there + b"\n#EXT-X-ENDLIST\n"
        answers = {
            "x.mp4": b"HTTP/1.1 302 Found\r\nLocation: " + there + b"\r\nContent-Length: 0\r\n\r\n",
            "x.m3u8": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Type: application/x-mpegurl\r\n\r\n"
            % len(playlist)
            + playlist,
        }
        for path, answer in answers.items():
            with serving(lambda request, answer=answer: answer) as server:  # type: ignore[misc]
                uri = f"http://127.0.0.1:{server.port}/{path}"
                assert count(Media(uri=uri, networks=HERE))[0] == 0
                assert canary.connections == 0, path
                count(Media(uri=uri))
                assert canary.connections, "the test sees nothing: FFmpeg does not follow this at all"
            canary.connections = 0


@pytest.mark.parametrize(
    "uri", ["udp://0.0.0.0:5000", "srt://10.0.0.7:1", "clip.mp4", "rtmp://10.0.0.7/x", "file:///clip.mp4"]
)
def test_what_cannot_be_confined_is_refused_with_networks(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="networks is for addresses that begin with rtsp, rtsps, http, https"):
        Media(uri=uri, networks=HERE)


def test_udp_cannot_be_confined() -> None:
    with pytest.raises(ConfigurationError, match="over tcp only"):
        Rtsp(uri="rtsp://10.0.0.7/x", networks=("private",), transport="auto")


def test_a_refusal_is_one_that_is_not_tried_again_at_once() -> None:
    reader = Rtsp(uri="rtsp://127.0.0.1/x", networks=("private",)).build(Site(device=Device()), stream=Stream("gate"))
    with pytest.raises(StreamRefused):
        next(reader.frames())
