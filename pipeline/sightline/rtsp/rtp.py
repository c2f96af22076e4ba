"""RTP packets and RTCP reports (RFC 3550) of one stream."""

from __future__ import annotations

import struct
from dataclasses import dataclass

CLOCK_HZ = 90_000
"""Ticks a second of every video payload."""

_SECONDS_1900_TO_1970 = 2_208_988_800
_SECOND_NS = 1_000_000_000
_SENDER_REPORT, _DESCRIPTION, _GOODBYE = 200, 202, 203
_CNAME = 1


@dataclass(slots=True)
class RtpStream:
    """Numbers packets on, and counts them for reports."""

    payload_type: int
    ssrc: int
    sequence: int
    packets: int = 0
    octets: int = 0

    def packet(self, payload: bytes, *, timestamp: int, marker: bool) -> bytes:
        """The next packet; `timestamp` is taken modulo 2^32, `marker` says that it ends an image."""
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
