"""One client's RTSP session with a fake camera."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sightline_plugins.commands.camera.clip import Clip, ClipPacket, Mount, Reel
from sightline_plugins.rtsp.messages import (
    PAYLOAD_TYPES,
    SOUND,
    VIDEO,
    Answer,
    Guard,
    Request,
    Scheme,
    describe,
    next_request,
)
from sightline_plugins.rtsp.payloads import CLOCK_HZ, RtpStream
from sightline_plugins.rtsp.transport import Channel, Connection, open_channel

Transport = Literal["tcp", "udp"]


@dataclass(frozen=True, slots=True)
class CameraOptions:
    """Options of a server that do not change while it runs.

    Every session begins at the beginning of the clip; with `live` it joins the running clip, perhaps between two key
    frames. The clip plays `passes` times (None: without end) with continuous timestamps; then the session ends or, with
    `holds`, stays open and silent. Without `paced`, images are sent as fast as the client takes them.
    """

    host: str = "127.0.0.1"
    transports: tuple[Transport, ...] = ("tcp", "udp")
    authentication: Scheme = "digest"
    paced: bool = True
    passes: int | None = None
    holds: bool = False
    live: bool = False
    sound: bool = False
    """Promise a sound track in the description; nothing is ever sent on it."""
    report_seconds: float = 1.0
    """Time between two sender reports; the first goes before the first image."""


_SECOND_NS = 1_000_000_000
_LONGEST_NAP_SECONDS = 0.05
_STILL_NAP_SECONDS = 0.01
_TEN_YEARS_NS = 3_652 * 86_400 * _SECOND_NS
_BYTES_OVERWRITTEN = 8


class Playback:
    """Plays a mount's clip to one client.

    Stream time counts from the first PLAY (with `live` from when the camera got the clip) and never stops: after a
    stall or a pause the clip continues where it stopped, later.
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
        """The value of `RTP-Info`: the first sequence number and timestamp."""
        first = self._ticks(self._joined_ns + self._mount.clip.packets[0].pts_ns) & 0xFFFFFFFF
        return f"url={url};seq={self._rtp.sequence};rtptime={first}"

    async def run(self) -> None:
        """Play until the passes are over or the codec changes, then send a goodbye."""
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
        """Play a clip to its end; False when the camera got another one before."""
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
                since_ns = time.monotonic_ns()
                while self._mount.faults.stall or self.paused:
                    await asyncio.sleep(_STILL_NAP_SECONDS)
                self._offset_ns += time.monotonic_ns() - since_ns
            at_ns = self._offset_ns + dts_ns
            ahead_ns = at_ns - (time.monotonic_ns() - self._start_ns) if self._options.paced else 0
            await self._report_if_due(at_ns - max(ahead_ns, 0))
            if ahead_ns <= 0:
                return
            await asyncio.sleep(min(ahead_ns / _SECOND_NS, _LONGEST_NAP_SECONDS))

    async def _send(self, packet: ClipPacket, payloads: tuple[bytes, ...]) -> None:
        faults, sent = self._mount.faults, self._mount.sent
        played_from_ns = self._joined_ns if self._options.live else 0
        if packet.is_key and self._offset_ns + packet.dts_ns - played_from_ns < faults.late_key * _SECOND_NS:
            sent.withheld_images += 1
            return
        timestamp = self._timestamp_of(self._offset_ns + packet.pts_ns)
        whole, packets = sent.lost_packets + sent.corrupted_packets, list[bytes]()
        for number, payload in enumerate(payloads, start=1):
            packet_bytes = self._rtp.packet(payload, timestamp=timestamp, marker=number == len(payloads))
            packets += self._after_faults(packet_bytes)
        await self._channel.send_media(packets)
        sent.images += 1
        sent.key_frames += packet.is_key
        sent.hurt_images += sent.lost_packets + sent.corrupted_packets > whole
        sent.packets += len(packets)
        sent.octets += sum(map(len, packets))

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
        """Lose or corrupt a packet, or pass it on."""
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
        every_ns = self._options.report_seconds * _SECOND_NS
        is_due = self._reported_ns is None or stream_ns - self._reported_ns >= every_ns
        if faults.reports == "none" or not is_due:
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


_METHODS = ("OPTIONS", "DESCRIBE", "SETUP", "PLAY", "PAUSE", "GET_PARAMETER", "SET_PARAMETER", "TEARDOWN")

_FAREWELL_SECONDS = 0.5
"""For clients that treat the end of the connection as an error, and drop images not shown yet."""
_GARBAGE_BYTES = 200
_NAME = "sightline fake camera"


@dataclass(slots=True)
class ServerState:
    """State shared by all sessions of a server. `credentials` (`user:password`) may change at any time."""

    mounts: Mapping[str, Mount]
    options: CameraOptions
    credentials: str | None
    guard: Guard
    on_event: Callable[[str], None] | None

    def mount(self, path: str) -> Mount | None:
        """Find the camera at a path, which may name one of its tracks."""
        name, _, track = path.rpartition("/")
        return self.mounts.get(name if track in (VIDEO, SOUND) else path)

    def say(self, text: str) -> None:
        """Report an event."""
        if self.on_event is not None:
            self.on_event(text)


@dataclass(slots=True)
class RtspSession:
    """One connection, from its first request to its end; used by the task that runs it."""

    state: ServerState
    connection: Connection
    _channels: dict[str, Channel] = field(default_factory=dict)
    _playback: Playback | None = None
    _task: asyncio.Task[None] | None = None

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Answer until the client leaves."""
        try:
            while (request := await next_request(reader)) is not None:
                await self._answer(request)
                if request.method == "TEARDOWN":
                    break
        except (ValueError, OSError):
            pass  # not RTSP, or disconnected: the session is over
        finally:
            await self._end()

    async def _answer(self, request: Request) -> None:
        mount = self.state.mount(request.path)
        faults = (mount or next(iter(self.state.mounts.values()))).faults
        self.connection.rate = lambda: faults.trickle
        while faults.stall:
            await asyncio.sleep(_STILL_NAP_SECONDS)
        if mount is not None and faults.garbage:
            await self.connection.send(mount.random.randbytes(_GARBAGE_BYTES))
            return
        answer = self._refusal(request, mount)
        if answer is None:
            assert mount is not None or request.method == "OPTIONS"
            answer = await self._granted(request, mount)
        await self.connection.send(answer.encoded(request, server=_NAME))
        if request.method == "PLAY" and answer.status == 200 and self._task is None:
            self._task = asyncio.create_task(self._play())

    def _refusal(self, request: Request, mount: Mount | None) -> Answer | None:
        """Answer a request that is refused; None when it is granted."""
        if request.method == "OPTIONS":
            return None
        authorization, wanted = request.headers.get("authorization", ""), self.state.credentials
        status = mount.faults.refuse if mount is not None else None
        if status is None and not (
            wanted is None or self.state.guard.admits(authorization, method=request.method, credentials=wanted)
        ):
            status = 401
        elif status is None and mount is None:
            status = 404
        if status is None:
            return None
        if mount is not None and (authorization or mount.faults.refuse):
            mount.sent.refused += 1
            self.state.say(f"{mount.name}: {request.method} of {self.connection.peer} refused with {status}")
        challenge = (("WWW-Authenticate", self.state.guard.challenge()),) if status == 401 else ()
        return Answer(status, challenge)

    async def _granted(self, request: Request, mount: Mount | None) -> Answer:
        if request.method == "OPTIONS" or mount is None:
            return Answer(headers=(("Public", ", ".join(_METHODS)),))
        if request.method == "DESCRIBE":
            head = (("Content-Type", "application/sdp"), ("Content-Base", request.url.rstrip("/") + "/"))
            return Answer(200, head, self._description(mount.clip))
        if request.method == "SETUP":
            return await self._set_up(request)
        if request.method == "PLAY":
            return self._start(request, mount)
        if request.method == "PAUSE" and self._playback is not None:
            self._playback.paused = True
        return Answer(headers=self._session) if request.method in _METHODS else Answer(405)

    def _description(self, clip: Clip) -> str:
        options = self.state.options
        return describe(
            clip.codec,
            parameter_sets=clip.parameter_sets,
            name="fake camera",
            host=options.host,
            fps=clip.fps,
            sound=options.sound,
        )

    @property
    def _session(self) -> tuple[tuple[str, str], ...]:
        return (("Session", f"{id(self):016x};timeout=60"),) if self._channels else ()

    async def _set_up(self, request: Request) -> Answer:
        track = SOUND if request.path.endswith(f"/{SOUND}") else VIDEO
        options = self.state.options
        channel = await open_channel(
            request.headers.get("transport", ""),
            self.connection,
            host=options.host,
            transports=options.transports,
            track=int(track == SOUND),
        )
        if channel is None:
            return Answer(461)
        if track in self._channels:
            self._channels[track].close()
        self._channels[track] = channel
        return Answer(200, (("Transport", channel.transport), *self._session))

    def _start(self, request: Request, mount: Mount) -> Answer:
        if VIDEO not in self._channels:
            return Answer(455)
        if self._playback is None:
            self._playback = Playback(mount, self._channels[VIDEO], options=self.state.options)
            mount.sent.sessions += 1
            protocol = self._channels[VIDEO].transport.partition(";")[0]
            self.state.say(f"{mount.name}: {self.connection.peer} watches over {protocol}")
        self._playback.paused = False
        info = self._playback.rtp_info(f"{request.url.rstrip('/')}/{VIDEO}")
        return Answer(200, (("Range", "npt=0.000-"), ("RTP-Info", info), *self._session))

    async def _play(self) -> None:
        assert self._playback is not None
        try:
            await self._playback.run()
            await asyncio.sleep(_FAREWELL_SECONDS)
        except OSError:
            return  # the client is gone
        finally:
            self.connection.close()

    async def _end(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self.connection.close()
        if self._task is not None:
            self._task.cancel()
            self.state.say(f"{self.connection.peer} left")
            await asyncio.wait([self._task])
