"""Fragmented MP4 over WebSockets, as a plain client sees it."""

from __future__ import annotations

import http.client
import io
import json
import re
import urllib.request
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from sightline import Pipeline
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.integration.publish.publishing import (
    COUNTER,
    SIZE_WH,
    TOKEN,
    Published,
    lumas,
    number_in,
    publishing,
    write_counter,
)


def received(client: ClientConnection, *, images: int) -> tuple[dict[str, object], io.BytesIO]:
    """What is announced, and the file that the first pieces make."""
    announced = json.loads(client.recv(timeout=300))
    pieces = [client.recv(timeout=300) for _ in range(images + 1)]
    return announced, io.BytesIO(b"".join(piece for piece in pieces if isinstance(piece, bytes)))


def numbers(file: io.BytesIO) -> list[int]:
    return [number_in(luma) for luma in lumas(file)]


def get(published: Published, path: str, **headers: str) -> tuple[int, str, str]:
    """Status, kind and body of an answer to who has the token."""
    connection = http.client.HTTPConnection("127.0.0.1", published.port, timeout=300)
    try:
        headers = {"Authorization": f"Bearer {TOKEN}", **headers}
        connection.request("GET", f"/steps/publish-1{path}", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Content-Type", ""), answer.read().decode()
    finally:
        connection.close()


def refusal(url: str, **headers: str) -> int:
    """The status with which a player is refused."""
    with pytest.raises(InvalidStatus) as refused, connect(url, additional_headers=headers):
        pass
    return refused.value.response.status_code


def end_of(client: ClientConnection) -> int | None:
    """The code with which the server closes a connection."""
    try:
        while True:
            client.recv(timeout=300)
    except ConnectionClosed as closed:
        return None if closed.rcvd is None else closed.rcvd.code


@pytest.mark.parametrize("drawn", [True, False])
def test_a_player_gets_every_image_in_order(drawn: bool, tmp_path: Path) -> None:
    source = {"uri": str(write_counter(tmp_path / "clip.mp4")), "loop": True, "realtime": True}
    steps = ["draw"] if drawn else []
    with (
        publishing({"web": True}, sources={"gate": source}, before=steps) as published,
        connect(published.url("/live/gate", scheme="ws")) as client,
    ):
        announced, file = received(client, images=30)

    shown = numbers(file)
    assert (announced["width"], announced["height"]) == SIZE_WH
    assert str(announced["type"]).startswith('video/mp4; codecs="avc1.')
    assert len(shown) == 30
    assert shown == list(range(shown[0], shown[0] + 30))
    assert published.totals()["encoded"] is drawn


def test_an_image_of_another_size_is_announced(tmp_path: Path) -> None:
    first = load_clip(str(write_counter(tmp_path / "first.mp4")))
    painted = load_clip(str(write_counter(tmp_path / "second.mp4", size_wh=(160, 96))))
    with (
        FakeCamera(first) as camera,
        publishing({"web": True}, sources={"gate": camera.url}) as published,
        connect(published.url("/live/gate", scheme="ws")) as client,
    ):
        sizes: list[tuple[int, int]] = []
        while len(sizes) < 2:
            message = client.recv(timeout=300)
            if isinstance(message, str):
                announced = json.loads(message)
                sizes.append((announced["width"], announced["height"]))
                camera.swap(painted)

    assert sizes == [SIZE_WH, (160, 96)]


def test_the_page_and_its_parts_are_served() -> None:
    with publishing({"web": True}, sources={"gate": COUNTER, "a yard": COUNTER}) as published:
        page, script, streams = (get(published, path) for path in ("/", "/player.js", "/streams.json"))
        nothing = get(published, "/nothing")

    assert page[:2] == (200, "text/html; charset=utf-8")
    assert script[:2] == (200, "text/javascript; charset=utf-8")
    assert json.loads(streams[2]) == ["a yard", "gate"]
    assert nothing[0] == 404
    assert "http:" not in page[2] + script[2].replace('"https:"', "")


def test_pages_of_others_may_not_look() -> None:
    with publishing({"web": True}) as published:
        assert get(published, "/streams.json", Origin="http://evil.example")[0] == 403
        assert refusal(published.url("/live/gate", scheme="ws"), Origin="http://evil.example") == 403


def test_whoever_has_no_token_is_kept_out() -> None:
    with publishing({"web": True}) as published:
        assert get(published, "/", Authorization="")[0] == 401
        assert get(published, "/streams.json", Authorization="Bearer wrong-horse-battery")[0] == 401
        assert refusal(published.url("/live/gate", scheme="ws", token=None)) == 401
        assert refusal(published.url("/live/gate", scheme="ws", token="wrong-horse-battery")) == 401


def test_a_stream_that_is_not_there_is_not_found() -> None:
    with publishing({"web": True}) as published:
        assert refusal(published.url("/live/yard", scheme="ws")) == 404


def test_hls_is_served_beside_it(tmp_path: Path) -> None:
    source = {"uri": str(write_counter(tmp_path / "clip.mp4")), "loop": True, "realtime": True}
    options = {"web": True, "hls": "{stream}/live.m3u8"}
    with publishing(options, sources={"gate": source}, outputs=tmp_path) as published:
        published.wait_for(lambda: (tmp_path / "gate" / "live.m3u8").exists())
        (tmp_path / "gate" / "secret.m4s").write_text("not of the playlist")
        status, kind, playlist = get(published, "/hls/gate/live.m3u8")
        names = [line for line in playlist.splitlines() if line and not line.startswith("#")]
        files = read_back_of(published, names[0], playlist)
        others = ["secret.m4s", "../gate/secret.m4s", "..%2Fgate%2Flive.m3u8", "%2e%2e/clip.mp4", "live-1.m4s%00"]
        refused = [get(published, f"/hls/gate/{name}")[0] for name in (*others, "live-999999.m4s")]

    assert (status, kind) == (200, "application/vnd.apple.mpegurl")
    assert numbers(files)[0] == 0
    assert set(refused) == {404}


def read_back_of(published: Published, segment: str, playlist: str) -> io.BytesIO:
    """The file that a segment makes with its beginning."""
    [start] = re.findall(r'#EXT-X-MAP:URI="([^"]+)"', playlist)[:1]
    parts = []
    for name in (start, segment):
        with urllib.request.urlopen(published.url(f"/hls/gate/{name}"), timeout=300) as answer:
            parts.append(answer.read())
    return io.BytesIO(b"".join(parts))


def test_a_step_that_nobody_serves_says_so() -> None:
    pipeline = Pipeline(sources={"gate": {"pattern": "bars", "frames": 3}}, steps=[{"publish": {"web": True}}])
    said: list[str] = []
    pipeline.on_message(lambda message: said.append(message.text))
    pipeline.run()

    assert any("--listen" in text for text in said)


def test_players_are_told_when_the_pipeline_ends() -> None:
    with (
        publishing({"web": True}) as published,
        connect(published.url("/live/gate", scheme="ws")) as client,
    ):
        received(client, images=2)
        published.pipeline.stop()
        published.pipeline.wait()
        assert end_of(client) == 1001


def test_what_a_player_says_is_not_listened_to() -> None:
    with publishing({"web": True}) as published, connect(published.url("/live/gate", scheme="ws")) as client:
        client.send(b"x" * 10_000)
        assert end_of(client) == 1009
