from __future__ import annotations

import ctypes
import platform
from pathlib import Path

import pytest
from tests.integration.sources.clips import write_clip

from sightline_plugins.decode.open_media import OpenOptions
from sightline_plugins.decode.video import VideoDecoder

_PASSES, _WARM_UP, _READS = 20, 3, 200


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
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo
    return int(mallinfo2().uordblks)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc tells what is allocated")
def test_reading_packet_by_packet_keeps_nothing(tmp_path: Path) -> None:
    decoder = VideoDecoder(
        str(write_clip(tmp_path / "clip.mp4", count=_READS)),
        stream="cam",
        options=OpenOptions(),
        warn=lambda text: None,
        on_damage=lambda: None,
    )
    used = []
    for _ in range(_PASSES):
        decoder.seek(0)
        for _ in range(_READS):
            decoder.read()
        used.append(used_bytes())
    decoder.close()

    assert used[-1] - used[_WARM_UP] < 20 * _READS * (_PASSES - _WARM_UP)
