"""Whether NVENC encodes pictures, and why not: asked of the GPU before an encoder is made, never found by trying."""

from __future__ import annotations

from sightline.media import Surface
from sightline_plugins.encode.encoders import EncoderError
from sightline_plugins.encode.nvenc.library import FORMATS, NvencLibrary
from sightline_plugins.encode.nvenc.options import CODECS


def reason_against(first: Surface, *, codec: str, library: NvencLibrary) -> str | None:
    """Why a film that begins with this picture is not given to NVENC; None when it is. Raises GpuError."""
    if first.is_wide:
        return "its pictures have 16 bits a sample, and films have 8"
    if first.format not in FORMATS:
        return f"NVENC is given {' and '.join(FORMATS)}, and these pictures are {first.format}"
    width, height = first.size_wh
    if width % 2 or height % 2:
        return f"NVENC takes pictures of even width and height, not {width}x{height}"
    try:
        support = library.support(CODECS[codec])
    except EncoderError as error:
        return str(error)
    against = support.reason_against(first.size_wh)
    return None if against is None else f"{codec}: {against}"
