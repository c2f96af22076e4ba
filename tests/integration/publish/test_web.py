"""Fragmented MP4 over WebSockets, as a plain client sees it."""

from __future__ import annotations

import http.client
import io
import json
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.integration.publish.publishing import (
    COUNTER,
    SIZE_WH,
    free_port,
    lumas,
    number_in,
    publishing,
    write_counter,
)

TOKEN = "correct-horse-battery"


def received(client: ClientConnection, *, images: int) -> tuple[dict[str, object], io.BytesIO]:
    """What is announced, and the file that the first pieces make."""
    announced = json.loads(client.recv(timeout=300))
    pieces = [client.recv(timeout=300) for _ in range(images + 1)]
    return announced, io.BytesIO(b"".join(piece for piece in pieces if isinstance(piece, bytes)))


def numbers(file: io.BytesIO) -> list[int]:
    return [number_in(luma) for luma in lumas(file)]


def get(port: int, path: str, **headers: str) -> tuple[int, str, str]:
    """Status, kind and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("GET", path, headers=headers)
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
    port = free_port()
    source = {"uri": str(write_counter(tmp_path / "clip.mp4")), "loop": True, "realtime": True}
    steps = ["draw"] if drawn else []
    with (
        publishing({"web": f"127.0.0.1:{port}"}, sources={"gate": source}, before=steps) as published,
        connect(f"ws://127.0.0.1:{port}/live/gate") as client,
    ):
        announced, file = received(client, images=30)

    shown = numbers(file)
    assert (announced["width"], announced["height"]) == SIZE_WH
    assert str(announced["type"]).startswith('video/mp4; codecs="avc1.')
    assert len(shown) == 30
    assert shown == list(range(shown[0], shown[0] + 30))
    assert published.totals()["encoded"] is drawn


def test_an_image_of_another_size_is_announced(tmp_path: Path) -> None:
    port = free_port()
    first = load_clip(str(write_counter(tmp_path / "first.mp4")))
    painted = load_clip(str(write_counter(tmp_path / "second.mp4", size_wh=(160, 96))))
    with (
        FakeCamera(first) as camera,
        publishing({"web": f"127.0.0.1:{port}"}, sources={"gate": camera.url}),
        connect(f"ws://127.0.0.1:{port}/live/gate") as client,
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
    port = free_port()
    with publishing({"web": f"127.0.0.1:{port}"}, sources={"gate": COUNTER, "a yard": COUNTER}):
        page, script, streams = (get(port, path) for path in ("/", "/player.js", "/streams.json"))
        nothing = get(port, "/nothing")

    assert page[:2] == (200, "text/html; charset=utf-8")
    assert script[:2] == (200, "text/javascript; charset=utf-8")
    assert json.loads(streams[2]) == ["a yard", "gate"]
    assert nothing[0] == 404
    assert "http:" not in page[2] + script[2].replace('"https:"', "")


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_pages_of_others_may_not_look(headers: dict[str, str]) -> None:
    port = free_port()
    with publishing({"web": f"127.0.0.1:{port}"}):
        assert get(port, "/streams.json", **headers)[0] == 403
        assert refusal(f"ws://127.0.0.1:{port}/live/gate", Origin="http://evil.example") == 403


def test_a_token_keeps_out_whoever_does_not_know_it() -> None:
    port = free_port()
    with publishing({"web": f"127.0.0.1:{port}", "token": TOKEN}):
        assert get(port, "/")[0] == 401
        assert get(port, "/streams.json?token=wrong-horse-battery")[0] == 401
        assert refusal(f"ws://127.0.0.1:{port}/live/gate") == 401
        with connect(f"ws://127.0.0.1:{port}/live/gate?token={TOKEN}") as client:
            announced, _ = received(client, images=2)

    assert announced["width"] == SIZE_WH[0]


def test_a_stream_that_is_not_there_is_not_found() -> None:
    port = free_port()
    with publishing({"web": f"127.0.0.1:{port}"}):
        assert refusal(f"ws://127.0.0.1:{port}/live/yard") == 404


def test_players_are_told_when_the_pipeline_ends() -> None:
    port = free_port()
    with (
        publishing({"web": f"127.0.0.1:{port}"}) as published,
        connect(f"ws://127.0.0.1:{port}/live/gate") as client,
    ):
        received(client, images=2)
        published.pipeline.stop()
        published.pipeline.wait()
        assert end_of(client) == 1001


def test_what_a_player_says_is_not_listened_to() -> None:
    port = free_port()
    with publishing({"web": f"127.0.0.1:{port}"}), connect(f"ws://127.0.0.1:{port}/live/gate") as client:
        client.send(b"x" * 10_000)
        assert end_of(client) == 1009
