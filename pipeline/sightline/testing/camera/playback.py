"""One client's stream: images when they are due, as RTP packets with what is wrong with them, and reports."""

from __future__ import annotations

import asyncio
import time

from sightline.rtsp.channels import Channel
from sightline.rtsp.rtp import CLOCK_HZ, RtpStream
from sightline.rtsp.sdp import PAYLOAD_TYPES
from sightline.testing.camera.clip import ClipPacket
from sightline.testing.camera.mount import Mount, Reel
from sightline.testing.camera.options import CameraOptions

_SECOND_NS = 1_000_000_000
_LONGEST_NAP_SECONDS = 0.05
_STILL_NAP_SECONDS = 0.01
_TEN_YEARS_NS = 3_652 * 86_400 * _SECOND_NS
_BYTES_OVERWRITTEN = 8


class Playback:
    """Plays a mount's clip to one client. Stream time counts from the first PLAY (with `live` from when the clip was
    put into the camera) and stands still for nothing: after a stall or a pause the clip goes on where it stood, later.
    """

    def __init__(self, mount: Mount, channel: Channel, *, options: CameraOptions) -> None:
        self._mount, self._channel, self._options = mount, channel, options
        random, wrap = mount.random, mount.faults.wrap
        self._base = random.getrandbits(31) if wrap is None else -round(wrap * CLOCK_HZ)
        codec = mount.clip.codec
        self._rtp = RtpStream(PAYLOAD_TYPES[codec], ssrc=random.getrandbits(32), sequence=random.getrandbits(16))
        self._codec = codec
        self.paused = False
        self._start_ns = mount.reel.begun_ns if options.live else time.monotonic_ns()
        self._epoch_start_ns = time.time_ns() - (time.monotonic_ns() - self._start_ns)
        self._joined_ns = time.monotonic_ns() - self._start_ns
        self._offset_ns = 0
        if options.live:
            self._offset_ns = self._joined_ns // mount.clip.duration_ns * mount.clip.duration_ns
        self._reported_ns: int | None = None
        self._images = 0
        self._timestamp = 0

    def rtp_info(self, url: str) -> str:
        """The value of `RTP-Info`: with which number and timestamp it begins."""
        first = self._ticks(self._joined_ns + self._mount.clip.packets[0].pts_ns) & 0xFFFFFFFF
        return f"url={url};seq={self._rtp.sequence};rtptime={first}"

    async def run(self) -> None:
        """Play until the passes are over or the codec is another one, then say goodbye."""
        passes = 0
        while self._shows_same_codec and (self._options.passes is None or passes < self._options.passes):
            passes += await self._pass(self._mount.reel)
        while self._shows_same_codec and self._options.holds:
            await asyncio.sleep(_LONGEST_NAP_SECONDS)
        await asyncio.sleep(self._channel.linger_seconds)
        await self._channel.send_control(self._rtp.goodbye())

    @property
    def _shows_same_codec(self) -> bool:
        return self._mount.clip.codec is self._codec

    async def _pass(self, reel: Reel) -> bool:
        """Play a clip to its end; False when another was put into the camera before."""
        for number, packet in enumerate(reel.clip.packets):
            if self._offset_ns + packet.dts_ns < self._joined_ns and self._options.live:
                continue
            await self._wait_until_due(packet.dts_ns)
            if self._mount.reel is not reel:
                self._offset_ns += packet.dts_ns
                return False
            await self._send(packet, reel.payloads(number))
        self._offset_ns += reel.clip.duration_ns
        self._mount.sent.passes += 1
        return True

    async def _wait_until_due(self, dts_ns: int) -> None:
        await asyncio.sleep(0)
        while True:
            if self._mount.faults.stall or self.paused:
                await self._stand_still()
            at_ns = self._offset_ns + dts_ns
            ahead_ns = at_ns - self._elapsed_ns() if self._options.paced else 0
            await self._report_if_due(at_ns - max(ahead_ns, 0))
            if ahead_ns <= 0:
                return
            await asyncio.sleep(min(ahead_ns / _SECOND_NS, _LONGEST_NAP_SECONDS))

    async def _stand_still(self) -> None:
        since_ns = time.monotonic_ns()
        while self._mount.faults.stall or self.paused:
            await asyncio.sleep(_STILL_NAP_SECONDS)
        self._offset_ns += time.monotonic_ns() - since_ns

    def _elapsed_ns(self) -> int:
        return time.monotonic_ns() - self._start_ns

    async def _send(self, packet: ClipPacket, payloads: tuple[bytes, ...]) -> None:
        faults, sent = self._mount.faults, self._mount.sent
        if packet.is_key and self._offset_ns + packet.dts_ns - self._played_from_ns < faults.late_key * _SECOND_NS:
            sent.withheld_images += 1
            return
        timestamp = self._timestamp_of(self._offset_ns + packet.pts_ns)
        whole, packets = sent.lost_packets + sent.corrupted_packets, list[bytes]()
        for number, payload in enumerate(payloads, start=1):
            made = self._rtp.packet(payload, timestamp=timestamp, marker=number == len(payloads))
            packets += self._after_faults(made)
        await self._channel.send_media(packets)
        sent.images += 1
        sent.key_frames += packet.is_key
        sent.hurt_images += sent.lost_packets + sent.corrupted_packets > whole
        sent.packets += len(packets)
        sent.octets += sum(map(len, packets))

    @property
    def _played_from_ns(self) -> int:
        return self._joined_ns if self._options.live else 0

    def _timestamp_of(self, taken_ns: int) -> int:
        kind = self._mount.faults.timestamps
        self._images += 1
        if kind == "zero":
            return 0
        if kind != "doubled" or self._images % 2:
            self._timestamp = self._ticks(taken_ns)
        return self._timestamp

    def _ticks(self, stream_ns: int) -> int:
        jump_ns = round(self._mount.faults.jump * _SECOND_NS)
        return self._base + (stream_ns + jump_ns) * CLOCK_HZ // _SECOND_NS

    def _after_faults(self, packet: bytes) -> list[bytes]:
        """What of a packet goes out: nothing, something else, or the packet."""
        faults, sent, random = self._mount.faults, self._mount.sent, self._mount.random
        if faults.loss and random.random() < faults.loss:
            sent.lost_packets += 1
            return []
        if faults.corruption and random.random() < faults.corruption:
            sent.corrupted_packets += 1
            damaged = bytearray(packet)
            for _ in range(_BYTES_OVERWRITTEN):
                damaged[random.randrange(len(damaged))] = random.getrandbits(8)
            return [bytes(damaged)]
        return [packet]

    async def _report_if_due(self, stream_ns: int) -> None:
        faults = self._mount.faults
        is_first = self._reported_ns is None
        every_ns = self._options.report_seconds * _SECOND_NS
        if faults.reports == "none" or not (is_first or stream_ns - (self._reported_ns or 0) >= every_ns):
            return
        self._reported_ns = stream_ns
        epoch_ns = self._epoch_start_ns + stream_ns
        if faults.reports == "1970":
            epoch_ns = stream_ns
        elif faults.reports == "future":
            epoch_ns += _TEN_YEARS_NS
        report = self._rtp.report(epoch_ns=epoch_ns, timestamp=self._ticks(stream_ns))
        await self._channel.send_control(report)
        self._mount.sent.reports += 1
