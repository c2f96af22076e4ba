"""The RTSP dialog with one client (RFC 2326)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sightline.rtsp.authentication import Guard
from sightline.rtsp.channels import Channel, Connection, open_channel
from sightline.rtsp.messages import Answer, Request, next_request
from sightline.rtsp.sdp import SOUND, VIDEO, describe
from sightline.testing.camera.clip import Clip
from sightline.testing.camera.mount import Mount
from sightline.testing.camera.options import CameraOptions
from sightline.testing.camera.playback import Playback

_METHODS = ("OPTIONS", "DESCRIBE", "SETUP", "PLAY", "PAUSE", "GET_PARAMETER", "SET_PARAMETER", "TEARDOWN")
_STILL_NAP_SECONDS = 0.01
_FAREWELL_SECONDS = 0.5
"""For clients that take the end of the connection for an error, and what they have not shown yet for lost."""
_GARBAGE_BYTES = 200
_NAME = "sightline fake camera"


@dataclass(slots=True)
class House:
    """What all dialogs of a server share. `credentials` (`user:password`) may change at any moment."""

    mounts: Mapping[str, Mount]
    options: CameraOptions
    credentials: str | None
    guard: Guard
    say: Callable[[str], None]

    def mount(self, path: str) -> Mount | None:
        """The camera at a path, which may name one of its tracks."""
        name, _, track = path.rpartition("/")
        return self.mounts.get(name if track in (VIDEO, SOUND) else path)


@dataclass(slots=True)
class Dialog:
    """One connection, from its first request to its end; used by the task that runs it."""

    house: House
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
            pass  # no RTSP, or gone in the middle of an answer: either way the connection is of no use
        finally:
            await self._end()

    async def _answer(self, request: Request) -> None:
        mount = self.house.mount(request.path)
        faults = (mount or next(iter(self.house.mounts.values()))).faults
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
        """Why the request is not granted; None when it is."""
        if request.method == "OPTIONS":
            return None
        authorization = request.headers.get("authorization", "")
        status = mount.faults.refuse if mount is not None else None
        if status is None and not self._is_admitted(authorization, method=request.method):
            status = 401
        elif status is None and mount is None:
            status = 404
        if status is None:
            return None
        if mount is not None and (authorization or mount.faults.refuse):
            mount.sent.refused += 1
            self.house.say(f"{mount.name}: {request.method} of {self.connection.peer} refused with {status}")
        challenge = (("WWW-Authenticate", self.house.guard.challenge()),) if status == 401 else ()
        return Answer(status, challenge)

    def _is_admitted(self, authorization: str, *, method: str) -> bool:
        wanted = self.house.credentials
        return wanted is None or self.house.guard.admits(authorization, method=method, credentials=wanted)

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
        options = self.house.options
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
        options = self.house.options
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
            self._playback = Playback(mount, self._channels[VIDEO], options=self.house.options)
            mount.sent.sessions += 1
            protocol = self._channels[VIDEO].transport.partition(";")[0]
            self.house.say(f"{mount.name}: {self.connection.peer} watches over {protocol}")
        self._playback.paused = False
        info = self._playback.rtp_info(f"{request.url.rstrip('/')}/{VIDEO}")
        return Answer(200, (("Range", "npt=0.000-"), ("RTP-Info", info), *self._session))

    async def _play(self) -> None:
        assert self._playback is not None
        try:
            await self._playback.run()
            await asyncio.sleep(_FAREWELL_SECONDS)
        except OSError:
            return  # the client is gone, which its dialog notices too
        finally:
            self.connection.close()

    async def _end(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self.connection.close()
        if self._task is not None:
            self._task.cancel()
            self.house.say(f"{self.connection.peer} left")
            await asyncio.wait([self._task])
