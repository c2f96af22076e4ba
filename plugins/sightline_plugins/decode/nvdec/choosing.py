"""Whether NVDEC decodes a stream, and why not: asked of the GPU before a decoder is made, never found out by trying."""

from __future__ import annotations

from sightline_plugins.decode.nvdec.image_facts import ImageFacts
from sightline_plugins.decode.nvdec.library import CODECS, NvdecLibrary

_SPOKEN = {"400": "without colour", "420": "4:2:0", "444": "4:4:4"}


def reason_against_codec(codec: str) -> str | None:
    """Why streams of a codec (FFmpeg's name) are not given to NVDEC; None when they may be."""
    if codec in CODECS:
        return None
    return f"NVDEC decodes {', '.join(CODECS)} exactly as the CPU does, and is not used for {codec}"


def reason_against(facts: ImageFacts, *, codec: str, library: NvdecLibrary) -> str | None:
    """Why these images are not given to NVDEC; None when they are."""
    if facts.pixel_format is None:
        return f"NVDEC is not used for images of the format {facts.coded}"
    if facts.is_interlaced:
        return "its images are interlaced: PyNvVideoCodec would deinterlace them"
    support = library.support(codec, chroma=facts.chroma, bit_depth=facts.bit_depth)
    against = support.reason_against(facts.size_wh)
    return None if against is None else f"{codec}, {_SPOKEN[facts.chroma]}, {facts.bit_depth} bits: {against}"
