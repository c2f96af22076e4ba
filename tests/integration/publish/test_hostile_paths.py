"""Whatever path is asked for, nothing but the files of a playlist is served."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.integration.publish.publishing import TOKEN, Published, publishing, write_counter
from tests.integration.server.hostile_paths import SERVED

SECRET = "what-is-outside"


def asked(published: Published, target: str) -> tuple[int, str]:
    """Status and body for a request target that is sent as it is written."""
    place, path = published.url("").removeprefix("http://").partition("?")[0].split("/", 1)
    host, _, port = place.partition(":")
    head = (
        f"GET /{path}{target} HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=300) as connection:
        connection.sendall(head.encode())
        answer = b""
        while data := connection.recv(1 << 16):
            answer += data
    return int(answer.split(b" ", 2)[1]), answer.decode(errors="replace")


def test_nothing_outside_a_playlist_is_served(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "gate", outside):
        folder.mkdir(parents=True)
        (folder / "secret.m4s").write_text(SECRET)
    (root / "gate" / "live-000900.m4s").symlink_to(outside / "secret.m4s")
    source = {"uri": str(write_counter(tmp_path / "clip.mp4")), "loop": True, "realtime": True}
    options = {"web": True, "hls": "{stream}/live.m3u8"}
    with publishing(options, sources={"gate": source}, outputs=root) as published:
        published.wait_for(lambda: (root / "gate" / "live.m3u8").exists())
        assert asked(published, "/hls/gate/live.m3u8")[0] == 200
        answers = {
            target: asked(published, target)
            for name in SERVED
            for target in (
                f"/hls/gate/{name.format(outside=outside)}",
                f"/hls/{name.format(outside=outside)}/live.m3u8",
            )
        }

    assert {target: status for target, (status, _) in answers.items() if status != 404} == {
        "/hls/gate/live.m3u8?x=..": 200,
        "/hls/gate/live.m3u8/": 307,  # to itself without the slash
    }
    assert [target for target, (_, text) in answers.items() if SECRET in text] == []
