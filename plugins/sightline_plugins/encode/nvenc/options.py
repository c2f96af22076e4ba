"""Our settings in NVENC's words: the one table of them.

| ours | NVENC's |
|---|---|
| `codec` | `h264`, `hevc` |
| `preset`, `ultrafast` to `slow` | `P1` to `P7`, tuned for quality |
| `quality` | variable rate with that constant quality (`cq`) and no bound; 0 is 1, because 0 means none |
| `bitrate` | variable rate with that average, and twice as much for a while |
| `gop` | none: key frames are asked for, so that they stand where they do on the CPU |

There are no B-frames and no look-ahead, so that images come out in the order in which they go in. With `bitrate`,
NVENC is told how many images a second there are, see `pace.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sightline_plugins.encode.nvenc.pace import NOMINAL_FPS
from sightline_plugins.encode.settings import EncoderSettings

CODECS: Mapping[str, str] = MappingProxyType({"h264": "h264", "h265": "hevc"})
"""NVENC's names of codecs, which are FFmpeg's, by ours."""
PRESETS: Mapping[str, str] = MappingProxyType(
    {
        "ultrafast": "P1",
        "superfast": "P2",
        "veryfast": "P3",
        "faster": "P4",
        "fast": "P5",
        "medium": "P6",
        "slow": "P7",
    }
)
_ENDLESS_GOP = 0xFFFFFFFF


def options_of(settings: EncoderSettings) -> dict[str, str | int]:
    """The keyword arguments of PyNvVideoCodec's `CreateEncoder`. Bits a second are whole numbers: it cuts off decimals,
    and takes `k` and `M` for powers of 1024.
    """
    options: dict[str, str | int] = {
        "codec": CODECS[settings.codec],
        "preset": PRESETS[settings.preset],
        "tuning_info": "high_quality",
        "rc": "vbr",
        "bf": 0,
        "gop": _ENDLESS_GOP,
        "fps": NOMINAL_FPS,
    }
    if settings.bitrate is None:
        return options | {"cq": max(1, settings.quality), "bitrate": 0, "maxbitrate": 0}
    return options | {"bitrate": settings.bitrate, "maxbitrate": 2 * settings.bitrate}
