"""HLS, handed out by an ordinary web server and read by our own pipeline and by FFmpeg."""

from __future__ import annotations

import functools
import itertools
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sightline.media import Frame
from tests.conftest import missing
from tests.integration.publish.publishing import SIZE_WH, number_in, numbers, publishing, read_back, write_counter

FRAMES = 200
SHORT = {"pattern": {"pattern": "counter", "size": list(SIZE_WH), "frames": FRAMES}}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        pass


@contextmanager
def web_server(folder: Path) -> Iterator[str]:
    """The address at which a folder is handed out."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def published(folder: Path, source: object) -> Path:
    """The playlist that is left when a stream has been published to its end."""
    with publishing({"hls": "{stream}/index.m3u8"}, sources={"gate": source}, outputs=folder) as running:
        running.wait_for(lambda: running.frames == FRAMES)
    return folder / "gate" / "index.m3u8"


def check(frames: list[Frame]) -> None:
    shown = numbers(frames)
    steps = [later.pts_ns - earlier.pts_ns for earlier, later in itertools.pairwise(frames)]
    assert shown == list(range(shown[0], shown[0] + len(shown)))
    assert {frame.size_wh for frame in frames} == {SIZE_WH}
    assert all(abs(step - 40_000_000) < 50_000 for step in steps)


def test_every_image_that_is_listed_comes_back(tmp_path: Path) -> None:
    playlist = published(tmp_path, SHORT)
    with web_server(tmp_path) as address:
        frames = read_back(f"{address}/gate/{playlist.name}", count=FRAMES)

    assert len(frames) == FRAMES
    check(frames)


@pytest.mark.parametrize("encoder", ["libx264", "libx265"])
def test_untouched_images_are_passed_on_with_their_order(encoder: str, tmp_path: Path) -> None:
    clip = write_counter(tmp_path / "clip.mp4", encoder=encoder, count=FRAMES, b_frames=2)
    playlist = published(tmp_path, str(clip))
    with web_server(tmp_path) as address:
        frames = read_back(f"{address}/gate/{playlist.name}", count=FRAMES)

    assert len(frames) == FRAMES
    check(frames)


def test_images_that_the_source_turned_are_published_as_they_look(tmp_path: Path) -> None:
    clip = write_counter(tmp_path / "clip.mp4", count=FRAMES)
    playlist = published(tmp_path, {"uri": str(clip), "rotate": 180})
    with web_server(tmp_path) as address:
        frames = read_back(f"{address}/gate/{playlist.name}", count=5)

    assert [number_in(frame.surface.planes[0][::-1, ::-1]) for frame in frames] == [0, 1, 2, 3, 4]


def test_ffprobe_reads_it(tmp_path: Path) -> None:
    if shutil.which("ffprobe") is None:
        missing("ffprobe is not installed (Debian: ffmpeg)")
    playlist = published(tmp_path, SHORT)
    command = ["ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=codec_name,nb_read_frames"]
    with web_server(tmp_path) as address:
        command += ["-of", "csv=p=0", f"{address}/gate/{playlist.name}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert f"h264,{FRAMES}" in done.stdout, done.stderr
