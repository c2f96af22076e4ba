"""RTP: packets, and how H.264, H.265 and JPEG are packed into them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256


class Codec(StrEnum):
    """The codecs of cameras."""

    H264 = "h264"
    H265 = "h265"
    MJPEG = "mjpeg"

    @property
    def ffmpeg_name(self) -> str:
        """FFmpeg's name of the codec."""
        return "hevc" if self is Codec.H265 else self.value

    @classmethod
    def from_ffmpeg(cls, name: str) -> Codec | None:
        """The codec with that name in FFmpeg; None for one that cameras do not send."""
        return next((codec for codec in cls if codec.ffmpeg_name == name), None)


CLOCK_HZ = 90_000
"""Ticks per second of every video payload."""

_SECONDS_1900_TO_1970 = 2_208_988_800
_SECOND_NS = 1_000_000_000
_SENDER_REPORT, _DESCRIPTION, _GOODBYE = 200, 202, 203
_CNAME = 1


@dataclass(slots=True)
class RtpStream:
    """Numbers the packets of one stream, and counts them for sender reports."""

    payload_type: int
    ssrc: int
    sequence: int
    packets: int = 0
    octets: int = 0

    def packet(self, payload: bytes, *, timestamp: int, marker: bool) -> bytes:
        """The next packet; `timestamp` is taken modulo 2^32, `marker` ends an image."""
        second = self.payload_type | (0x80 if marker else 0)
        head = struct.pack(">BBHII", 0x80, second, self.sequence, timestamp & 0xFFFFFFFF, self.ssrc)
        self.sequence = (self.sequence + 1) & 0xFFFF
        self.packets += 1
        self.octets += len(payload)
        return head + payload

    def report(self, *, epoch_ns: int, timestamp: int) -> bytes:
        """A sender report: at that time of day, the stream's clock showed `timestamp`."""
        seconds, rest_ns = divmod(epoch_ns, _SECOND_NS)
        ntp = (seconds + _SECONDS_1900_TO_1970 & 0xFFFFFFFF) << 32 | (rest_ns << 32) // _SECOND_NS
        body = struct.pack(
            ">IQIII", self.ssrc, ntp, timestamp & 0xFFFFFFFF, self.packets & 0xFFFFFFFF, self.octets & 0xFFFFFFFF
        )
        return _rtcp(_SENDER_REPORT, body, count=0) + self._description()

    def goodbye(self) -> bytes:
        """The last RTCP packet of a stream that ends."""
        receiver = _rtcp(201, struct.pack(">I", self.ssrc), count=0)
        return receiver + self._description() + _rtcp(_GOODBYE, struct.pack(">I", self.ssrc), count=1)

    def _description(self) -> bytes:
        name = b"sightline"
        body = struct.pack(">IBB", self.ssrc, _CNAME, len(name)) + name
        return _rtcp(_DESCRIPTION, body + bytes(4 - len(body) % 4), count=1)


def _rtcp(kind: int, body: bytes, *, count: int) -> bytes:
    return struct.pack(">BBH", 0x80 | count, kind, len(body) // 4) + body


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
    """The segments of a JPEG before its scan data, which begins at `scan_at`."""

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
        _read_segment(header, marker, image[at + 4 : at + 2 + length])
        at += 2 + length
        if marker == _START_OF_SCAN:
            header.scan_at = at
    if not header.scan_at:
        raise ValueError("the image is no whole JPEG")
    return header


def _read_segment(header: _Header, marker: int, body: bytes) -> None:
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


MAX_PAYLOAD = 1_400
"""Maximum bytes of a payload: with all headers it fits an Ethernet frame."""

_START, _END = 0x80, 0x40


def payloads(units: Sequence[bytes], *, codec: Codec, max_payload: int = MAX_PAYLOAD) -> tuple[bytes, ...]:
    """The RTP payloads of one image: its NAL units without start codes, parameter sets first, or one whole JPEG.

    Units that consist of a header only are left out. Raises ValueError when RTP has no way to send such a JPEG.
    """
    if codec is Codec.MJPEG:
        return tuple(jpeg_payloads(units[0], max_payload=max_payload))
    scheme = _H264 if codec is Codec.H264 else _H265
    return tuple(scheme.payloads(units, max_payload=max_payload))


@dataclass(frozen=True, slots=True)
class _Scheme:
    """How a codec puts several units into a payload, and one unit into several: NAL types of both kinds of payload."""

    header_size: int
    aggregation: int
    fragment: int

    def payloads(self, units: Sequence[bytes], *, max_payload: int) -> Iterator[bytes]:
        waiting: list[bytes] = []
        size = self.header_size
        for unit in (unit for unit in units if len(unit) > self.header_size):
            if waiting and size + 2 + len(unit) > max_payload:
                yield self._together(waiting)
                waiting, size = [], self.header_size
            if len(unit) > max_payload:
                yield from self._fragments(unit, max_payload=max_payload)
            else:
                waiting.append(unit)
                size += 2 + len(unit)
        if waiting:
            yield self._together(waiting)

    def _together(self, units: Sequence[bytes]) -> bytes:
        if len(units) == 1:
            return units[0]
        body = b"".join(len(unit).to_bytes(2, "big") + unit for unit in units)
        return self._header(max(units, key=lambda unit: unit[0] & 0x60), self.aggregation) + body

    def _fragments(self, unit: bytes, *, max_payload: int) -> Iterator[bytes]:
        header = self._header(unit, self.fragment)
        kind = unit[0] & 0x1F if self.header_size == 1 else unit[0] >> 1 & 0x3F
        body = unit[self.header_size :]
        room = max_payload - len(header) - 1
        for at in range(0, len(body), room):
            edges = (_START if at == 0 else 0) | (_END if at + room >= len(body) else 0)
            yield header + bytes([edges | kind]) + body[at : at + room]

    def _header(self, unit: bytes, kind: int) -> bytes:
        if self.header_size == 1:
            return bytes([unit[0] & 0xE0 | kind])
        return bytes([unit[0] & 0x81 | kind << 1, unit[1]])


_H264 = _Scheme(1, aggregation=24, fragment=28)
_H265 = _Scheme(2, aggregation=48, fragment=49)
