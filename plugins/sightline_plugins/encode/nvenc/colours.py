"""What a stream of NVENC says of its colours: nothing, unless it is written into its parameter sets."""

from __future__ import annotations

from av.bitstream import BitStreamFilterContext
from av.packet import Packet

from sightline.media import ColorRange
from sightline_plugins.encode.images import AV_MATRIX
from sightline_plugins.encode.settings import Layout

_FILTERS = {"h264": "h264_metadata", "hevc": "hevc_metadata"}


class ColourTags:
    """Writes matrix and range into the parameter sets of one stream, as the CPU's encoders do: primaries and transfer
    stay unknown.
    """

    def __init__(self, codec: str, *, layout: Layout) -> None:
        options = {
            "video_full_range_flag": int(layout.range is ColorRange.FULL),
            "matrix_coefficients": AV_MATRIX[layout.matrix],
        }
        written = ":".join(f"{name}={value}" for name, value in options.items())
        self._filter = BitStreamFilterContext(f"{_FILTERS[codec]}={written}", codec)

    def on(self, data: bytes) -> bytes:
        """The same units, parameter sets among them with the tags. Raises FFmpegError when they are damaged."""
        return b"".join(bytes(packet) for packet in self._filter.filter(Packet(data)))
