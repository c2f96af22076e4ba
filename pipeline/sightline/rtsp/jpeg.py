"""JPEG images in RTP (RFC 2435): baseline, 4:2:0 or 4:2:2, with the standard Huffman tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

_START_OF_FRAME, _HUFFMAN, _QUANTISATION, _RESTART, _START_OF_SCAN = 0xC0, 0xC4, 0xDB, 0xDD, 0xDA
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_TYPES = {(2, 1): 0, (2, 2): 1}
_LARGEST_SIDE = 2_040
_TABLES_IN_BAND = 255
_RESTART_FLAG = 64
_MOST_SCAN_BYTES = (1 << 24) - 1
_STANDARD_HUFFMAN = frozenset(
    {
        "9fb04cb1a8076318f33f273ffef967a9ea7291ecf3adeca79f643dfd300de425",
        "af48d4f608dfb682fd19ee479c66dad5342dfbed5b1d1807b95393162a8715d1",
        "f27ce9b718f91cd426885e6ce4a37d0ba4900db219f719eef29ecc1f7f4fd5f0",
        "8cf60aa835f8474bb590e73332bee9c246bec9ce1e368aa725674c096f3efd2c",
    }
)
"""SHA-256 of the four tables of ITU-T T.81, K.3, each with its class and number: RFC 2435 sends none."""


@dataclass(slots=True)
class _Header:
    """What is before the scan data of a JPEG."""

    size_wh: tuple[int, int] = (0, 0)
    sampling: tuple[int, ...] = ()
    quantisation: tuple[int, ...] = ()
    tables: dict[int, bytes] = field(default_factory=dict)
    restart_interval: int = 0
    scan_at: int = 0


def jpeg_payloads(image: bytes, *, max_payload: int) -> Iterator[bytes]:
    """The payloads of one image. Raises ValueError when RFC 2435 has no way to send such a JPEG."""
    try:
        header = _header_of(image)
        kind = _kind(header)
    except IndexError as error:
        raise ValueError("the image is no whole JPEG") from error
    scan = image[header.scan_at : image.rfind(b"\xff\xd9")]
    if len(scan) > _MOST_SCAN_BYTES:
        raise ValueError("JPEG over RTP carries images of up to 16 MB")
    width, height = ((side + 7) // 8 for side in header.size_wh)
    quantisation = b"".join(header.tables[number] for number in header.quantisation[:2])
    first = b"\x00\x00" + len(quantisation).to_bytes(2, "big") + quantisation
    restart = b""
    if header.restart_interval:
        kind |= _RESTART_FLAG
        restart = header.restart_interval.to_bytes(2, "big") + b"\xff\xff"
    at = 0
    while at < len(scan):
        main = b"\x00" + at.to_bytes(3, "big") + bytes([kind, _TABLES_IN_BAND, width, height])
        head = main + restart + (b"" if at else first)
        end = at + max_payload - len(head)
        yield head + scan[at:end]
        at = end


def _kind(header: _Header) -> int:
    if not 0 < max(header.size_wh) <= _LARGEST_SIDE or not header.tables.keys() >= set(header.quantisation):
        raise ValueError(f"JPEG over RTP carries baseline images of up to {_LARGEST_SIDE} pixels a side")
    if header.sampling[1:] != (0x11, 0x11) or (luma := divmod(header.sampling[0], 16)) not in _TYPES:
        raise ValueError("JPEG over RTP carries 4:2:0 and 4:2:2 only; convert the clip to yuvj420p")
    return _TYPES[luma]


def _header_of(image: bytes) -> _Header:
    header, at = _Header(), 2
    while at + 4 <= len(image) and not header.scan_at:
        marker = image[at + 1]
        if marker in _WITHOUT_LENGTH or marker == 0xFF:
            at += 1 if marker == 0xFF else 2
            continue
        length = int.from_bytes(image[at + 2 : at + 4], "big")
        _note(header, marker, image[at + 4 : at + 2 + length])
        at += 2 + length
        if marker == _START_OF_SCAN:
            header.scan_at = at
    if not header.scan_at:
        raise ValueError("the image is no whole JPEG")
    return header


def _note(header: _Header, marker: int, body: bytes) -> None:
    if marker == _START_OF_FRAME:
        header.size_wh = int.from_bytes(body[3:5], "big"), int.from_bytes(body[1:3], "big")
        header.sampling = tuple(body[7 + 3 * number] for number in range(body[5]))
        header.quantisation = tuple(body[8 + 3 * number] for number in range(body[5]))
    elif marker == _QUANTISATION:
        for at in range(0, len(body) - 64, 65):
            header.tables[body[at]] = body[at + 1 : at + 65]
    elif marker == _RESTART:
        header.restart_interval = int.from_bytes(body[:2], "big")
    elif marker == _HUFFMAN:
        _check_huffman(body)


def _check_huffman(body: bytes) -> None:
    at = 0
    while at < len(body):
        end = at + 17 + sum(body[at + 1 : at + 17])
        if sha256(body[at:end]).hexdigest() not in _STANDARD_HUFFMAN:
            raise ValueError("JPEG over RTP needs the standard Huffman tables: encode the clip with -huffman default")
        at = end
