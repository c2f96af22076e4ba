"""The codecs that cameras send and publishers publish."""

from __future__ import annotations

from enum import StrEnum


class Codec(StrEnum):
    """The codecs of cameras."""

    H264 = "h264"
    H265 = "h265"
    MJPEG = "mjpeg"
