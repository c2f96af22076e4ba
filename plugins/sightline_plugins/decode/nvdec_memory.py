"""How much of a GPU's memory a stream takes that NVDEC decodes: an estimate, to know in time what does not fit.

NVDEC allocates by itself, and its library ends the process where it lacks memory at the wrong moment. What it takes is
its coded images: those that the codec may refer to, one that is decoded, four that NVIDIA's parser asks for, and two
that are mapped. PyNvVideoCodec has one more, into which it copies. Sizes of H.264's and H.265's references are those
of ordinary streams (level 4.1 and below): A.3.1 of ITU-T H.264, A.4.2 of H.265. No GPU has confirmed the sums.
"""

from __future__ import annotations

from sightline_plugins.decode.file_head import read_head

CAMERA = ("h264", (1920, 1080))
"""Codec and size that are assumed of a camera before it is asked."""
_MIB = 2**20
_BESIDE_REFERENCES = 1 + 4 + 2 + 1
_UNDER_WAY = 8
"""Surfaces of a stream that wait in queues, batches and models."""
_MACROBLOCKS_OF_H264 = 32_768
_REFERENCES = {"hevc": 6, "vp9": 8, "av1": 8, "vp8": 3, "mpeg2video": 2}
_MOST_REFERENCES = 16
_DECODER_BYTES = 2 * _MIB


def decoder_bytes(codec: str, size_wh: tuple[int, int], *, bit_depth: int = 8) -> int:
    """About how much a decoder of NVDEC takes for 4:2:0 images of that size; `codec` is FFmpeg's name."""
    return (_references(codec, size_wh) + _BESIDE_REFERENCES) * _image_bytes(size_wh, bit_depth) + _DECODER_BYTES


def stream_bytes(codec: str, size_wh: tuple[int, int], *, bit_depth: int = 8) -> int:
    """About how much a stream takes: its decoder, and its surfaces that are under way."""
    return decoder_bytes(codec, size_wh, bit_depth=bit_depth) + _UNDER_WAY * _image_bytes(size_wh, bit_depth)


def file_bytes(uri: str, *, number: int = 0) -> int:
    """About how much a video file takes; 0 where its head does not show that. Opens it."""
    head = read_head(uri, number=number)
    return 0 if head is None else stream_bytes(head.codec, head.size_wh)


def _references(codec: str, size_wh: tuple[int, int]) -> int:
    if codec != "h264":
        return _REFERENCES.get(codec, 4)
    macroblocks = -(-size_wh[0] // 16) * -(-size_wh[1] // 16)
    return min(max(_MACROBLOCKS_OF_H264 // max(macroblocks, 1), 1), _MOST_REFERENCES)


def _image_bytes(size_wh: tuple[int, int], bit_depth: int) -> int:
    width, height = -(-size_wh[0] // 32) * 32, -(-size_wh[1] // 16) * 16
    return width * height * 3 // 2 * (1 if bit_depth == 8 else 2)
