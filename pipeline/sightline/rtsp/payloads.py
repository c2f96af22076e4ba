"""Images cut into RTP payloads: H.264 (RFC 6184), H.265 (RFC 7798); JPEG has a module of its own (`jpeg`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sightline.rtsp.codec import Codec
from sightline.rtsp.jpeg import jpeg_payloads

MAX_PAYLOAD = 1_400
"""Bytes of a payload at most: with all headers it fits an Ethernet frame."""

_H264_STAP_A, _H264_FU_A = 24, 28
_H265_AGGREGATION, _H265_FRAGMENT = 48, 49
_START, _END = 0x80, 0x40


def payloads(units: Sequence[bytes], *, codec: Codec, max_payload: int = MAX_PAYLOAD) -> tuple[bytes, ...]:
    """The RTP payloads of one image: its NAL units without start codes, parameter sets first, or one whole JPEG.

    Units that are nothing but a header are left out. Raises ValueError when RTP has no way to send such a JPEG.
    """
    if codec is Codec.MJPEG:
        return tuple(jpeg_payloads(units[0], max_payload=max_payload))
    scheme = _H264 if codec is Codec.H264 else _H265
    return tuple(_packed(units, scheme=scheme, max_payload=max_payload))


@dataclass(frozen=True, slots=True)
class _Scheme:
    """How one codec puts several units into a payload, and one unit into several."""

    header_size: int
    aggregation: int
    fragment: int

    def aggregated(self, units: Sequence[bytes]) -> bytes:
        body = b"".join(len(unit).to_bytes(2, "big") + unit for unit in units)
        return self._header(max(units, key=lambda unit: unit[0] & 0x60), self.aggregation) + body

    def fragments(self, unit: bytes, *, max_payload: int) -> Iterator[bytes]:
        header, kind = self._header(unit, self.fragment), self._kind(unit)
        body = unit[self.header_size :]
        room = max_payload - len(header) - 1
        for at in range(0, len(body), room):
            edges = (_START if at == 0 else 0) | (_END if at + room >= len(body) else 0)
            yield header + bytes([edges | kind]) + body[at : at + room]

    def _kind(self, unit: bytes) -> int:
        return unit[0] & 0x1F if self.header_size == 1 else unit[0] >> 1 & 0x3F

    def _header(self, unit: bytes, kind: int) -> bytes:
        if self.header_size == 1:
            return bytes([unit[0] & 0xE0 | kind])
        return bytes([unit[0] & 0x81 | kind << 1, unit[1]])


_H264 = _Scheme(1, _H264_STAP_A, _H264_FU_A)
_H265 = _Scheme(2, _H265_AGGREGATION, _H265_FRAGMENT)


def _packed(units: Sequence[bytes], *, scheme: _Scheme, max_payload: int) -> Iterator[bytes]:
    waiting: list[bytes] = []
    for unit in (unit for unit in units if len(unit) > scheme.header_size):
        if waiting and _aggregated_size(scheme, [*waiting, unit]) > max_payload:
            yield _together(waiting, scheme)
            waiting = []
        if len(unit) > max_payload:
            yield from scheme.fragments(unit, max_payload=max_payload)
        else:
            waiting.append(unit)
    if waiting:
        yield _together(waiting, scheme)


def _aggregated_size(scheme: _Scheme, units: Sequence[bytes]) -> int:
    return scheme.header_size + sum(2 + len(unit) for unit in units)


def _together(units: Sequence[bytes], scheme: _Scheme) -> bytes:
    return units[0] if len(units) == 1 else scheme.aggregated(units)
