"""Playlists and segments: what is listed is there, and what is no longer listed goes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from sightline.errors import OutputError
from sightline.graph import Outputs
from sightline_plugins.publish.broadcast import Image
from sightline_plugins.publish.hls import HlsWriter
from tests.unit.publish.images import PLAIN, group, plain

LARGER = replace(PLAIN, size_wh=(128, 96))


def written(folder: Path, images: Iterable[Image], *, finish: bool = True) -> str:
    writer = HlsWriter(folder / "index.m3u8", outputs=Outputs(folder))
    for image in images:
        writer.write(image)
    if finish:
        writer.finish()
    playlist = folder / "index.m3u8"
    return playlist.read_text() if playlist.exists() else ""


def seconds(count: int, *, first: int = 0) -> list[Image]:
    """So many seconds with a key frame in each."""
    return [image for second in range(count) for image in group((first + second) * 25, count=25)]


def durations(playlist: str) -> list[float]:
    return [float(text) for text in re.findall(r"#EXTINF:([\d.]+)", playlist)]


def test_segments_are_two_seconds_long_and_begin_with_a_key_frame(tmp_path: Path) -> None:
    playlist = written(tmp_path, seconds(6))

    assert durations(playlist) == [2.0, 2.0, 2.0]
    assert playlist.startswith("#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:1\n")
    assert playlist.endswith("#EXT-X-ENDLIST\n")


def test_nothing_is_listed_before_it_is_complete(tmp_path: Path) -> None:
    assert written(tmp_path, seconds(2), finish=False) == ""
    assert durations(written(tmp_path, [*seconds(2), plain(50, is_key=True)], finish=False)) == [2.0]


def test_the_playlist_lists_the_last_six_and_every_file_that_it_names_is_there(tmp_path: Path) -> None:
    playlist = written(tmp_path, seconds(40))
    listed = [line for line in playlist.splitlines() if not line.startswith("#")]

    assert listed == [f"index-{number:06d}.m4s" for number in range(15, 21)]
    assert "#EXT-X-MEDIA-SEQUENCE:15\n" in playlist
    assert all((tmp_path / name).stat().st_size > 0 for name in [*listed, "index-start-1.mp4"])


def test_older_segments_are_removed(tmp_path: Path) -> None:
    written(tmp_path, seconds(40))

    assert sorted(path.name for path in tmp_path.glob("*.m4s")) == [
        f"index-{number:06d}.m4s" for number in range(12, 21)
    ]


def test_another_size_is_a_discontinuity_with_a_start_of_its_own(tmp_path: Path) -> None:
    other = [replace(image, format=LARGER) for image in seconds(4, first=4)]
    playlist = written(tmp_path, [*seconds(4), *other])

    assert playlist.count("#EXT-X-DISCONTINUITY\n") == 1
    assert (
        playlist.index("index-start-1.mp4") < playlist.index("#EXT-X-DISCONTINUITY\n") < playlist.index("start-2.mp4")
    )


def test_the_start_that_nothing_needs_any_more_is_removed(tmp_path: Path) -> None:
    other = [replace(image, format=LARGER) for image in seconds(30, first=4)]
    playlist = written(tmp_path, [*seconds(4), *other])

    assert not (tmp_path / "index-start-1.mp4").exists()
    assert "#EXT-X-DISCONTINUITY-SEQUENCE:1\n" in playlist


def test_a_stream_that_was_away_goes_on_behind_a_discontinuity(tmp_path: Path) -> None:
    playlist = written(tmp_path, [*seconds(3), *seconds(2, first=60)])

    assert playlist.count("#EXT-X-DISCONTINUITY\n") == 1
    assert max(durations(playlist)) <= 2.0


def test_the_time_of_day_is_told_where_it_is_known(tmp_path: Path) -> None:
    images = [replace(image, capture_ns=1_767_323_045_678_000_000 + image.pts_ns) for image in seconds(2)]

    assert "#EXT-X-PROGRAM-DATE-TIME:2026-01-02T03:04:05.678Z\n" in written(tmp_path, images)


def test_a_place_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "index-000001.m4s").symlink_to("/dev/null")

    with pytest.raises(OutputError, match="links are not followed"):
        written(tmp_path, seconds(2))
