from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from tests.integration.sources.clips import write_clip

from sightline_plugins.decode.open_media import OpenOptions
from sightline_plugins.decode.video import VideoDecoder

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc tells what is allocated")
_PASSES, _WARM_UP, _READS, _INPUTS = 20, 3, 200, 25


class _Mallinfo(ctypes.Structure):
    """What glibc tells of its heap (mallinfo2(3))."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keep",
        )
    )


def used_bytes() -> int:
    """What is allocated and not freed."""
    return int(_mallinfo2()().uordblks)


@cache
def _mallinfo2() -> Callable[[], Any]:
    # Every CDLL brings classes of its own, which only the garbage collector frees.
    function = ctypes.CDLL(None).mallinfo2
    function.restype = _Mallinfo
    return cast("Callable[[], Any]", function)


def opened(clip: Path) -> VideoDecoder:
    return VideoDecoder(str(clip), stream="cam", options=OpenOptions(), warn=lambda text: None, on_damage=lambda: None)


def test_reading_packet_by_packet_keeps_nothing(tmp_path: Path) -> None:
    decoder = opened(write_clip(tmp_path / "clip.mp4", count=_READS))
    used = []
    for _ in range(_PASSES):
        decoder.seek(0)
        for _ in range(_READS):
            decoder.read()
        used.append(used_bytes())
    decoder.close()

    assert used[-1] - used[_WARM_UP] < 20 * _READS * (_PASSES - _WARM_UP)


def test_an_input_that_is_closed_before_its_end_keeps_nothing(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", count=3)
    used = []
    for _ in range(_PASSES):
        for _ in range(_INPUTS):
            decoder = opened(clip)
            decoder.read()
            decoder.close()
        used.append(used_bytes())

    assert used[-1] - used[_WARM_UP] < 50 * _INPUTS * (_PASSES - _WARM_UP)


def test_asking_for_the_time_limit_again_keeps_nothing(tmp_path: Path) -> None:
    decoder = opened(write_clip(tmp_path / "clip.mp4", count=_READS))
    used = []
    for _ in range(_PASSES):
        decoder.seek(0)
        for _ in range(_READS):
            decoder.read(anew=True)
        used.append(used_bytes())
    decoder.close()

    assert used[-1] - used[_WARM_UP] < 20 * _READS * (_PASSES - _WARM_UP)
