"""The small parts of the protocol: credentials, RTP headers, reports, descriptions, requests."""

from __future__ import annotations

import asyncio
import struct
from hashlib import md5

import pytest

from sightline_plugins.codecs.bitstream import annex_b
from sightline_plugins.commands.camera.clip import Clip, ClipPacket
from sightline_plugins.rtsp.messages import Answer, Guard, Request, describe, next_request
from sightline_plugins.rtsp.payloads import Codec, RtpStream

SETS = (b"\x67\x42\x00\x1f\x99", b"\x68\xce\x38\x80\x01")


def hashed(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def request_of(data: bytes) -> Request | None:
    async def read() -> Request | None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await next_request(reader)

    return asyncio.run(read())


@pytest.mark.parametrize("quality", [False, True])
def test_a_digest_is_checked(quality: bool) -> None:
    guard = Guard("digest", realm="fake camera", nonce="n")
    middle = "n:00000001:c:auth" if quality else "n"
    response = hashed(f"{hashed('admin:fake camera:s3cret')}:{middle}:{hashed('DESCRIBE:rtsp://x/cam')}")
    more = ', qop=auth, nc=00000001, cnonce="c"' if quality else ""
    given = f'Digest username="admin", nonce="n", uri="rtsp://x/cam", response="{response}"{more}'

    assert guard.admits(given, method="DESCRIBE", credentials="admin:s3cret")
    assert not guard.admits(given, method="PLAY", credentials="admin:s3cret")
    assert not guard.admits(given, method="DESCRIBE", credentials="admin:other")
    assert not guard.admits(given.replace('"n"', '"m"'), method="DESCRIBE", credentials="admin:s3cret")


def test_basic_credentials_are_checked() -> None:
    guard = Guard("basic", realm="fake camera")

    assert guard.admits("Basic YWRtaW46czNjcmV0", method="PLAY", credentials="admin:s3cret")
    assert not guard.admits("Basic YWRtaW46czNjcmV0", method="PLAY", credentials="admin:other")
    assert not guard.admits("", method="PLAY", credentials="admin:s3cret")


def test_packets_are_numbered_beyond_the_largest_number() -> None:
    stream = RtpStream(96, ssrc=1, sequence=0xFFFF)
    heads = [struct.unpack(">BBHII", stream.packet(b"x", timestamp=2**32 + 5, marker=True)[:12]) for _ in range(2)]

    assert heads == [(0x80, 0xE0, 0xFFFF, 5, 1), (0x80, 0xE0, 0, 5, 1)]


def test_a_report_ties_the_stream_s_clock_to_the_time_of_day() -> None:
    stream = RtpStream(96, ssrc=7, sequence=0)
    stream.packet(b"four", timestamp=0, marker=False)
    report = stream.report(epoch_ns=1_500_000_000, timestamp=90)

    assert struct.unpack(">BBHIIIIII", report[:28]) == (0x80, 200, 6, 7, 2_208_988_801, 2**31, 90, 1, 4)
    assert len(report) % 4 == 0


def test_a_description_holds_the_parameter_sets() -> None:
    packet = ClipPacket(annex_b([b"\x65\x88\x01"]), 0, 0, is_key=True)
    clip = Clip.of([packet], codec=Codec.H264, size_wh=(64, 48), parameter_sets=SETS)

    said = describe(clip.codec, parameter_sets=clip.parameter_sets, name="x", host="127.0.0.1", sound=True)

    assert "a=fmtp:96 packetization-mode=1;profile-level-id=42001f;sprop-parameter-sets=Z0IAH5k=,aM44gAE=\r\n" in said
    assert said.index("m=audio") < said.index("m=video")


def test_a_request_is_read_behind_the_client_s_reports() -> None:
    request = request_of(b"$\x01\x00\x02\r\nPLAY rtsp://host/my%20cam/ RTSP/1.0\r\nCSeq: 3\r\nSession: 9\r\n\r\n")

    assert request is not None
    assert (request.method, request.path, request.headers["session"]) == ("PLAY", "my cam", "9")
    assert Answer(404).encoded(request, server="x").startswith(b"RTSP/1.0 404 Not Found\r\nCSeq: 3\r\n")


def test_a_closed_connection_is_no_request() -> None:
    assert request_of(b"OPTIONS rtsp://host RTSP/1.0\r\n") is None


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
        b"PLAY x RTSP/1.0\r\nContent-Length: -1\r\n\r\n",
        b"x" * 99_999,
    ],
)
def test_what_is_not_rtsp_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        request_of(data)
