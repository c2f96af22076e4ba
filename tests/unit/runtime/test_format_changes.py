"""Changes of a live stream's images: size, codec, frame rate."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pytest

from sightline.media import Frame, Stream
from sightline.runtime.sources.health import FormatChanges
from sightline.testing import make_frames

SECOND_NS = 1_000_000_000
SURFACES = {size_wh: make_frames(1, size_wh=size_wh)[0].surface for size_wh in ((32, 16), (16, 16))}


def frames_at(rates: Iterable[float], *, size_wh: tuple[int, int] = (32, 16)) -> Iterator[Frame]:
    pts_ns = 0
    for index, rate in enumerate(rates):
        yield Frame(Stream("yard", live=True), index, pts_ns, SURFACES[size_wh])
        pts_ns += round(SECOND_NS / rate)


def told(frames: Iterable[Frame], *, codec: str | None = "h264") -> list[str]:
    changes = FormatChanges()
    return [text for frame in frames if (text := changes.update(frame, codec=codec))]


def test_another_size_is_told_with_both() -> None:
    frames = itertools.chain(frames_at([25] * 3), frames_at([25] * 3, size_wh=(16, 16)))

    assert told(frames) == ["32x16 became 16x16"]


def test_another_codec_is_told_with_both() -> None:
    changes = FormatChanges()
    frame = next(frames_at([25]))

    assert [changes.update(frame, codec=codec) for codec in ("h264", "h264", "hevc")] == [
        None,
        None,
        "h264 became hevc",
    ]


@pytest.mark.parametrize("rates", [(25, 10), (10, 25), (15, 20)])
def test_another_frame_rate_is_told_once(rates: tuple[int, int]) -> None:
    before, after = rates

    assert told(frames_at([before] * 64 + [after] * 64)) == [f"{before} fps became {after} fps"]


def test_jitter_and_gaps_are_no_change_of_rate() -> None:
    uneven = [25.0, 20.0, 33.0, 25.0, 1.0, 24.0] * 40

    assert told(frames_at(uneven)) == []
