"""Fragmented MP4 (ISO/IEC 14496-12 and -15): the start of a file, and fragments that can follow it at any time.

Fragments hold absolute times and nothing of those before them, so that a viewer may begin with any that starts with a
key frame.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from sightline_plugins.encode.settings import TICKS_PER_SECOND, ticks_from_ns
from sightline_plugins.publish.broadcast import Format, Image
from sightline_plugins.rtsp.payloads import Codec

_MATRIX = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
_TRACK = 1
_KEY_FLAGS, _OTHER_FLAGS = 0x02000000, 0x01010000
_DATA_OFFSET, _DURATION, _SIZE, _FLAGS, _COMPOSITION = 0x001, 0x100, 0x200, 0x400, 0x800
_VPS, _SPS, _PPS = 32, 33, 34


def codec_string(image_format: Format) -> str:
    """The codec as browsers and playlists name it (RFC 6381). Raises ValueError for codecs that MP4 is not used for."""
    if image_format.codec is Codec.H264:
        return f"avc1.{image_format.parameter_sets[0][1:4].hex()}"
    if image_format.codec is not Codec.H265:
        raise ValueError(f"{image_format.codec} is not published as MP4")
    sps = _plain_bytes(_of_kind(image_format, _SPS)[0])
    space, tier, profile = sps[3] >> 6, sps[3] >> 5 & 1, sps[3] & 31
    compatible = int(f"{int.from_bytes(sps[4:8], 'big'):032b}"[::-1], 2)
    constraints = sps[8:14].rstrip(b"\0")
    parts = [f"{' ABC'[space].strip()}{profile}", f"{compatible:x}", f"{'LH'[tier]}{sps[14]}"]
    return ".".join(["hvc1", *parts, *(f"{byte:x}" for byte in constraints)])


def configuration(image_format: Format) -> bytes:
    """The configuration of a decoder: the content of `avcC` or `hvcC`."""
    return _avc_configuration(image_format) if image_format.codec is Codec.H264 else _hevc_configuration(image_format)


def start_of_file(image_format: Format) -> bytes:
    """`ftyp` and `moov` for one video track: what a player needs before any fragment."""
    brands = b"isom" + struct.pack(">I", 512) + b"isom" + b"iso6" + b"mp41"
    movie = _full_box(b"mvhd", 0, 0, struct.pack(">4I", 0, 0, 1000, 0), *_movie_rest(next_track=_TRACK + 1))
    extends = _box(b"mvex", _full_box(b"trex", 0, 0, struct.pack(">5I", _TRACK, 1, 0, 0, 0)))
    return _box(b"ftyp", brands) + _box(b"moov", movie, _track(image_format), extends)


def fragment(images: Sequence[Image], *, number: int, durations_ns: Sequence[int]) -> bytes:
    """`moof` and `mdat` of images in decoding order; `number` rises from fragment to fragment."""
    data = [b"".join(len(unit).to_bytes(4, "big") + unit for unit in image.units) for image in images]
    entries = b"".join(
        struct.pack(
            ">IIIi",
            ticks_from_ns(duration_ns),
            len(one),
            _KEY_FLAGS if image.is_key else _OTHER_FLAGS,
            ticks_from_ns(image.pts_ns) - ticks_from_ns(image.dts_ns),
        )
        for image, one, duration_ns in zip(images, data, durations_ns, strict=True)
    )
    decode_time = _full_box(b"tfdt", 1, 0, struct.pack(">q", ticks_from_ns(images[0].dts_ns)))
    run_flags = _DATA_OFFSET | _DURATION | _SIZE | _FLAGS | _COMPOSITION
    header = _full_box(b"tfhd", 0, 0x020000, struct.pack(">I", _TRACK))
    sequence = _full_box(b"mfhd", 0, 0, struct.pack(">I", number & 0xFFFFFFFF))

    def head(data_offset: int) -> bytes:
        run = _full_box(b"trun", 1, run_flags, struct.pack(">Ii", len(images), data_offset), entries)
        return _box(b"moof", sequence, _box(b"traf", header, decode_time, run))

    return head(len(head(0)) + 8) + _box(b"mdat", *data)


def _track(image_format: Format) -> bytes:
    width, height = image_format.size_wh
    head = _full_box(
        b"tkhd",
        0,
        3,
        struct.pack(">5I", 0, 0, _TRACK, 0, 0),
        bytes(16),
        _MATRIX,
        struct.pack(">II", width << 16, height << 16),
    )
    tables = [_full_box(kind, 0, 0, bytes(4)) for kind in (b"stts", b"stsc", b"stco")]
    description = _full_box(b"stsd", 0, 0, struct.pack(">I", 1), _sample_entry(image_format))
    samples = _box(b"stbl", description, *tables, _full_box(b"stsz", 0, 0, bytes(8)))
    place = _box(b"dinf", _full_box(b"dref", 0, 0, struct.pack(">I", 1), _full_box(b"url ", 0, 1)))
    media = _box(
        b"mdia",
        _full_box(b"mdhd", 0, 0, struct.pack(">4IHH", 0, 0, TICKS_PER_SECOND, 0, 0x55C4, 0)),
        _full_box(b"hdlr", 0, 0, bytes(4), b"vide", bytes(12), b"video\0"),
        _box(b"minf", _full_box(b"vmhd", 0, 1, bytes(8)), place, samples),
    )
    return _box(b"trak", head, media)


def _movie_rest(*, next_track: int) -> tuple[bytes, ...]:
    return struct.pack(">IH", 0x10000, 0x100), bytes(10), _MATRIX, bytes(24), struct.pack(">I", next_track)


def _sample_entry(image_format: Format) -> bytes:
    width, height = image_format.size_wh
    visual = struct.pack(">6xH16xHHIII H", 1, width, height, 0x480000, 0x480000, 0, 1)
    head = visual + bytes(32) + struct.pack(">Hh", 24, -1)
    if image_format.codec is Codec.H264:
        return _box(b"avc1", head, _box(b"avcC", _avc_configuration(image_format)))
    return _box(b"hvc1", head, _box(b"hvcC", _hevc_configuration(image_format)))


def _avc_configuration(image_format: Format) -> bytes:
    sets = image_format.parameter_sets
    sps, pps = ([unit for unit in sets if unit[0] & 0x1F == kind] for kind in (7, 8))
    head = bytes([1]) + sps[0][1:4] + bytes([0xFF])
    return head + bytes([0xE0 | len(sps)]) + _sized(sps) + bytes([len(pps)]) + _sized(pps)


def _hevc_configuration(image_format: Format) -> bytes:
    sps = _plain_bytes(_of_kind(image_format, _SPS)[0])
    sub_layers = (sps[2] >> 1 & 7) + 1
    nested = sps[2] & 1
    head = bytes([1]) + sps[3:15] + struct.pack(">HBBBBHB", 0xF000, 0xFC, 0xFD, 0xF8, 0xF8, 0, 0)
    head = head[:-1] + bytes([sub_layers << 3 | nested << 2 | 3])
    arrays = [(kind, _of_kind(image_format, kind)) for kind in (_VPS, _SPS, _PPS)]
    return (
        head
        + bytes([len(arrays)])
        + b"".join(bytes([0x80 | kind]) + struct.pack(">H", len(units)) + _sized(units) for kind, units in arrays)
    )


def _of_kind(image_format: Format, kind: int) -> list[bytes]:
    return [unit for unit in image_format.parameter_sets if unit[0] >> 1 & 0x3F == kind]


def _plain_bytes(unit: bytes) -> bytes:
    """The unit without the bytes that keep start codes out of it (emulation prevention)."""
    return unit.replace(b"\0\0\3", b"\0\0")


def _sized(units: Iterable[bytes]) -> bytes:
    return b"".join(len(unit).to_bytes(2, "big") + unit for unit in units)


def _box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I", len(body) + 8) + kind + body


def _full_box(kind: bytes, version: int, flags: int, *parts: bytes) -> bytes:
    return _box(kind, struct.pack(">I", version << 24 | flags), *parts)
