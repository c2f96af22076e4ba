"""What NVDEC can do, asked of the driver's library."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from sightline.devices.cuda.libcuda import DecoderSupport, _Caps, decoder_support


class Library:
    """Decodes H.264 and HEVC with seven engines, as an H100 does; no AV1."""

    def cuvidGetDecoderCaps(self, caps: Any) -> int:  # noqa: N802
        asked = caps._obj
        asked.engines = 7
        asked.is_supported = (
            asked.codec in (4, 8) and asked.chroma == 1 and (asked.codec, asked.bit_depth_minus_8) != (4, 2)
        )
        asked.min_width, asked.min_height, asked.max_width, asked.max_height = 48, 16, 4096, 4096
        asked.max_macroblocks = 65536
        return 0


def test_the_structure_is_as_long_as_in_nvidias_header() -> None:
    assert ctypes.sizeof(_Caps) == 88


@pytest.mark.parametrize(
    ("codec", "chroma", "bit_depth", "is_supported"),
    [
        ("h264", "420", 8, True),
        ("h264", "420", 10, False),
        ("hevc", "420", 10, True),
        ("hevc", "444", 8, False),
        ("av1", "420", 8, False),
        ("theora", "420", 8, False),
        ("h264", "411", 8, False),
    ],
)
def test_codecs_layouts_and_depths_are_told_apart(codec: str, chroma: str, bit_depth: int, is_supported: bool) -> None:
    assert decoder_support(Library(), codec, chroma=chroma, bit_depth=bit_depth).is_supported is is_supported


def test_engines_and_sizes_are_told() -> None:
    assert decoder_support(Library(), "h264") == DecoderSupport(
        is_supported=True, engines=7, min_size_wh=(48, 16), max_size_wh=(4096, 4096), max_macroblocks=65536
    )


@pytest.mark.parametrize("size_wh", [(32, 32), (48, 8), (4098, 100), (100, 8192)])
def test_images_of_other_sizes_are_refused_with_what_is_allowed(size_wh: tuple[int, int]) -> None:
    reason = decoder_support(Library(), "h264").reason_against(size_wh)

    assert reason is not None
    assert reason.endswith(f"from 48x16 to 4096x4096 with up to 65536 macroblocks, not {size_wh[0]}x{size_wh[1]}")


def test_images_of_allowed_sizes_are_not_refused() -> None:
    assert decoder_support(Library(), "h264").reason_against((1920, 1080)) is None


def test_what_is_not_decoded_is_refused_whatever_the_size() -> None:
    assert decoder_support(Library(), "av1").reason_against((1920, 1080)) == "this GPU does not decode it"
