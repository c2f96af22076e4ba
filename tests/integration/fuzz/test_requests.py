"""Requests to our RTSP servers, and what they send of a clip: any bytes are read, or refused as ValueError."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sightline_plugins.codecs.bitstream import avcc_parts, hvcc_parts, length_prefixed_units, nal_units
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.rtsp.messages import Guard, Request, describe, next_request
from sightline_plugins.rtsp.payloads import Codec, jpeg_payloads, payloads
from tests.integration.camera.clips import noise_clip, watch

METHODS = ("OPTIONS", "DESCRIBE", "SETUP", "PLAY", "PAUSE", "GET_PARAMETER", "TEARDOWN", "ANNOUNCE", "", "\x00")
URLS = ("*", "rtsp://127.0.0.1/cam", "rtsp://127.0.0.1/cam/video", "rtsp://[", "rtsp://a:b@c:d/%ff", "/" * 300, "")
TRANSPORTS = (
    "RTP/AVP/TCP;unicast;interleaved=0-1",
    "RTP/AVP;unicast;client_port=0-0",
    "RTP/AVP;unicast;client_port=99999-70000",
    f"RTP/AVP;unicast;client_port={'9' * 5_000}-1",
    f"RTP/AVP/TCP;interleaved={'9' * 5_000}-1",
    "RTP/AVP/TCP;interleaved=254-999",
    ",;=,;=" * 100,
)
HEADERS = st.one_of(
    st.sampled_from(TRANSPORTS).map("Transport: {}".format),
    st.sampled_from(("0", "-1", "5", "9" * 30, "9" * 5_000, "1e3", "٣")).map("Content-Length: {}".format),
    st.text(max_size=60).map('Authorization: Digest username="{}", nonce="", qop=auth'.format),
    st.integers().map("CSeq: {}".format),
    st.text(max_size=40),
)
HEADS = st.builds(
    lambda method, url, version, headers: "\r\n".join([f"{method} {url} {version}", *headers, "", ""]).encode(
        "utf-8", "surrogatepass"
    ),
    st.sampled_from(METHODS),
    st.one_of(st.sampled_from(URLS), st.text(max_size=20)),
    st.sampled_from(("RTSP/1.0", "RTSP/", "HTTP/1.1")),
    st.lists(HEADERS, max_size=4),
)
FRAMES = st.builds(lambda data: b"$\x01" + len(data).to_bytes(2, "big") + data, st.binary(max_size=50))
PIECES = st.lists(st.one_of(HEADS, HEADS, FRAMES, st.binary(max_size=80)), max_size=4).map(b"".join)

many = settings(max_examples=150, suppress_health_check=list(HealthCheck))


async def requests_in(data: bytes) -> list[Request]:
    reader = asyncio.StreamReader(limit=4_096)
    reader.feed_data(data)
    reader.feed_eof()
    found = []
    while (request := await next_request(reader)) is not None:
        found.append(request)
    return found


@many
@given(PIECES)
def test_any_bytes_are_requests_or_no_rtsp(data: bytes) -> None:
    try:
        found = asyncio.run(requests_in(data))
        paths = [request.path for request in found]
    except ValueError:
        return
    assert all(isinstance(path, str) for path in paths)


@many
@given(st.text(), st.sampled_from(("digest", "basic")))
def test_no_text_but_the_right_one_is_let_in(text: str, scheme: str) -> None:
    guard = Guard("digest" if scheme == "digest" else "basic", realm="gate")
    for given_text in (text, f"Digest {text}", f"Basic {text}", f'Digest username="u", nonce="{guard.nonce}", {text}'):
        assert not guard.admits(given_text, method="DESCRIBE", credentials="u:p")


@many
@given(st.binary(max_size=200), st.integers(1, 4))
def test_headers_and_packets_of_a_clip_are_read_or_refused(data: bytes, length_size: int) -> None:
    list(nal_units(data))
    for read in (avcc_parts, hvcc_parts):
        try:
            read(data)
        except ValueError:
            continue
    for lazily in (length_prefixed_units(data, length_size=length_size), jpeg_payloads(data, max_payload=1_400)):
        try:
            list(lazily)
        except ValueError:
            continue


@many
@given(st.lists(st.binary(min_size=1, max_size=3_000), max_size=5), st.sampled_from(list(Codec)), st.integers(0, 9))
def test_any_units_are_described_and_cut_to_fit(units: list[bytes], codec: Codec, repeats: int) -> None:
    described = describe(codec, parameter_sets=units, name="gate", host="127.0.0.1")
    assert described.endswith("\r\n")
    if codec is not Codec.MJPEG:
        assert all(len(payload) <= 1_400 for payload in payloads([unit * repeats for unit in units], codec=codec))


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    return noise_clip(tmp_path_factory.mktemp("clips"), count=20)


@pytest.fixture(scope="module")
def camera(clip: Clip) -> Iterator[FakeCamera]:
    with FakeCamera(clip) as camera:
        yield camera


@many
@given(PIECES)
def test_no_client_brings_a_server_down(camera: FakeCamera, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", camera.port), timeout=300) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)


def test_a_server_serves_on_after_all_these_clients(camera: FakeCamera) -> None:
    assert watch(camera.url, packets=5).error is None
