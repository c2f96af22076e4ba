"""Our settings in NVENC's words."""

from __future__ import annotations

from typing import get_args

import pytest

from sightline_plugins.encode.nvenc import CODECS, PRESETS, options_of
from sightline_plugins.encode.settings import EncoderSettings
from sightline_plugins.sinks.video import Video


def settings(*, codec: str = "h264", quality: int = 23, bitrate: int | None = None) -> EncoderSettings:
    return EncoderSettings(codec, "superfast", quality, bitrate, 2_000_000_000)


def test_every_codec_and_preset_of_video_has_one() -> None:
    fields = Video.model_fields

    assert set(get_args(fields["codec"].annotation)) == set(CODECS)
    assert list(get_args(fields["preset"].annotation)) == list(PRESETS)


@pytest.mark.parametrize(("quality", "cq"), [(0, 1), (1, 1), (23, 23), (51, 51)])
def test_quality_is_a_constant_quality_without_a_bound(quality: int, cq: int) -> None:
    options = options_of(settings(quality=quality))

    assert (options["rc"], options["cq"], options["bitrate"], options["maxbitrate"]) == ("vbr", cq, 0, 0)


def test_a_bit_rate_is_an_average_in_whole_bits() -> None:
    options = options_of(settings(codec="h265", bitrate=1_500_000))

    assert (options["codec"], options["bitrate"], options["maxbitrate"]) == ("hevc", 1_500_000, 3_000_000)
    assert "cq" not in options


def test_there_are_no_b_frames_and_no_key_frames_that_nobody_asked_for() -> None:
    options = options_of(settings())

    assert (options["bf"], options["gop"]) == (0, 0xFFFFFFFF)
    assert "lookahead" not in options
