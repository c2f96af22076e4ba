"""Names and numbers of PyNvVideoCodec's encoder, and what a GPU encodes, as its double has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag
from types import MappingProxyType


class PicFlags(IntFlag):
    """`NV_ENC_PIC_FLAGS`: what is asked of one image."""

    FORCEINTRA = 1
    FORCEIDR = 2
    OUTPUT_SPSPPS = 4
    EOS = 8


@dataclass(frozen=True, slots=True)
class NvencCaps:
    """What the GPU encodes of one codec: the sizes of its images."""

    min_size_wh: tuple[int, int] = (145, 49)
    max_size_wh: tuple[int, int] = (4096, 4096)


@dataclass(frozen=True, slots=True)
class NvencFaults:
    """What goes wrong: calls of `Encode` that raise, calls of it and of `EndEncode` that lose what they should give,
    numbered from 0 over all encoders; no encoder can be made, because others have all sessions.
    """

    fail_at: frozenset[int] = frozenset()
    lose: frozenset[int] = frozenset()
    is_refused: bool = False


ADA: Mapping[str, NvencCaps] = MappingProxyType(
    {
        "h264": NvencCaps(),
        "hevc": NvencCaps((129, 33), (8192, 8192)),
        "av1": NvencCaps((192, 128), (8192, 8192)),
    }
)
"""What an L4 is said to encode."""
NO_NVENC: Mapping[str, NvencCaps] = MappingProxyType({})
"""What an A100, an H100 and an H200 encode."""
