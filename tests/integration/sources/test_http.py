"""Clips over HTTP, from a real server on the loopback."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.sources.clips import write_clip

from sightline.errors import StreamUnreadable
from sightline.testing import run_source
from sightline_plugins.sources.file.element import Media


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        if self.path == "/away.mp4":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
        else:
            super().do_GET()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    write_clip(tmp_path / "clip.mkv", count=20)
    (tmp_path / "list.m3u8").write_text(
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"
    )
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.server_port}"
        listener.shutdown()
        thread.join()


def test_a_clip_is_read_over_http(server: str) -> None:
    assert [frame.pts_ns // 1_000_000 for frame in run_source(Media(uri=f"{server}/clip.mkv"))] == list(
        range(0, 800, 40)
    )


def test_an_unknown_path_is_an_error(server: str) -> None:
    with pytest.raises(StreamUnreadable, match="404"):
        run_source(Media(uri=f"{server}/nothing.mp4"))


@pytest.mark.parametrize("path", ["away.mp4", "list.m3u8"])
def test_neither_redirects_nor_playlists_lead_to_files(server: str, path: str) -> None:
    with pytest.raises(StreamUnreadable):
        run_source(Media(uri=f"{server}/{path}"))
