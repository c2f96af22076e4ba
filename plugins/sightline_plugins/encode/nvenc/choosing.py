"""Whether NVENC encodes images, and why not: asked of the GPU before an encoder is made, never found by trying."""

from __future__ import annotations

from sightline.media import Surface
from sightline_plugins.encode.encoders import EncoderError
from sightline_plugins.encode.nvenc.library import FORMATS, NvencLibrary
from sightline_plugins.encode.nvenc.options import CODECS


def reason_against(first: Surface, *, codec: str, library: NvencLibrary) -> str | None:
    """Why a video that begins with this image is not given to NVENC; None when it is. Raises GpuError."""
    if first.is_wide:
        return "its images have 16 bits a sample, and videos have 8"
    if first.format not in FORMATS:
        return f"NVENC is given {' and '.join(FORMATS)}, and these images are {first.format}"
    width, height = first.size_wh
    if width % 2 or height % 2:
        return f"NVENC takes images of even width and height, not {width}x{height}"
    try:
        support = library.support(CODECS[codec])
    except EncoderError as error:
        return str(error)
    against = support.reason_against(first.size_wh)
    return None if against is None else f"{codec}: {against}"
