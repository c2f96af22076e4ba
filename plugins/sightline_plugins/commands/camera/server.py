"""The fake camera's server, and scripts of what it does when."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from pydantic import ConfigDict, Field, InstanceOf, model_validator

from sightline.errors import ConfigurationError
from sightline.runtime.threads import LoopThread
from sightline_plugins.commands.camera.clip import Clip, Faults, Mount, Seconds, Sent
from sightline_plugins.commands.camera.session import CameraOptions, RtspSession, SessionHost
from sightline_plugins.rtsp.messages import Guard
from sightline_plugins.rtsp.transport import Connection, Listener


def self_signed_certificate(folder: Path, *, host: str = "127.0.0.1") -> Path:
    """Make a key and a certificate for `host`, good for one day, and return the PEM file that holds both.

    Raises ConfigurationError when there is no `openssl`.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        raise ConfigurationError("rtsps needs a certificate, and there is no command openssl to make one: install it")
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "camera.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(certificate), "-days", "1", "-subj", f"/CN={host}"]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603  its own arguments only
    both.write_text(key.read_text() + certificate.read_text())
    key.unlink()
    certificate.unlink()
    return both


_OWN = frozenset({"at", "lasts", "camera"})


class Step(Faults):
    """One thing, or several, that happen at once: any attribute of `Faults`, and what is below.

    `Step(at=10, stall=True, lasts=8)` stalls after ten seconds for eight. Without `lasts` it stays so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: Seconds
    """When, counted from the start of the camera."""
    lasts: Seconds | None = None
    """After this long everything is again as it was before."""
    camera: str | None = None
    """Which camera of several; all when it is not said."""
    kill: bool = False
    """The server is gone as if killed, with all its cameras; when `lasts` is over it listens again on the same port."""
    swap: InstanceOf[Clip] | None = None
    """Another clip: other size, rate or codec."""
    fps: float | None = Field(default=None, gt=0, le=10_000)
    """The same clip at another rate."""

    @model_validator(mode="after")
    def _does_something(self) -> Step:
        if not self.model_fields_set - _OWN:
            raise ValueError("nothing happens in this step: name a fault, kill, swap or fps")
        return self

    def faults(self) -> Iterator[tuple[str, object]]:
        """The faults that it sets, and to what."""
        for name in sorted(self.model_fields_set & Faults.model_fields.keys()):
            yield name, getattr(self, name)

    def text(self) -> str:
        """What happens, for people."""
        parts = [f"{name} {value}" for name, value in self.faults()]
        parts += ["killed"] if self.kill else []
        parts += [f"another clip ({self.swap.codec}, {self.swap.fps:.3g} fps)"] if self.swap is not None else []
        parts += [f"{self.fps:g} fps"] if self.fps is not None else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Script:
    """Steps in the order of their times; they begin again after `repeat_seconds`."""

    steps: tuple[Step, ...]
    repeat_seconds: float | None

    @classmethod
    def of(cls, steps: Sequence[Step], *, repeat_seconds: float | None, cameras: Collection[str]) -> Script:
        """Steps in any order for those cameras. Raises ValueError when they do not fit."""
        for step in steps:
            if step.camera is not None and step.camera not in cameras:
                raise ValueError(f"the script names a camera {step.camera!r}; cameras: {', '.join(cameras)}")
        last = max((step.at + (step.lasts or 0) for step in steps), default=0.0)
        if repeat_seconds is not None and repeat_seconds < max(last, 0.1):
            raise ValueError(f"the script takes {last:g} s and cannot begin again after {repeat_seconds:g} s")
        return cls(tuple(sorted(steps, key=lambda step: step.at)), repeat_seconds)


class Stage(Protocol):
    """What steps act on; used in its own event loop."""

    mounts: dict[str, Mount]

    async def up(self) -> None:
        """Listen."""

    async def down(self) -> None:
        """Close everything at once."""


async def perform(script: Script, stage: Stage, *, say: Callable[[str], None]) -> None:
    """Carry out a script; over when its last step is, unless it repeats."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    await _once(script.steps, stage, begin=begin, say=say)
    while script.repeat_seconds is not None:
        begin += script.repeat_seconds
        await _once(script.steps, stage, begin=begin, say=say)


async def _once(steps: Sequence[Step], stage: Stage, *, begin: float, say: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    undoing: set[asyncio.Task[None]] = set()
    try:
        for step in steps:
            await asyncio.sleep(begin + step.at - loop.time())
            undo = await _apply(step, stage)
            say(f"{step.at:g} s: {step.text()}" + (f" for {step.lasts:g} s" if step.lasts is not None else ""))
            if step.lasts is not None:
                undoing.add(asyncio.create_task(_undo_later(undo, step, say=say)))
        if undoing:
            await asyncio.wait(undoing)
    finally:
        for task in undoing:
            task.cancel()


async def _apply(step: Step, stage: Stage) -> Callable[[], Awaitable[None]]:
    """Let a step happen; what is returned takes it back."""
    mounts = _mounts(step, stage.mounts)
    before = [(mount, mount.clip, {name: getattr(mount.faults, name) for name, _ in step.faults()}) for mount in mounts]
    for mount in mounts:
        for name, value in step.faults():
            setattr(mount.faults, name, value)
        if step.swap is not None:
            mount.swap(step.swap)
        if step.fps is not None:
            mount.swap(mount.clip.at_fps(step.fps))
    if step.kill:
        await stage.down()

    async def undo() -> None:
        for mount, clip, faults in before:
            for name, value in faults.items():
                setattr(mount.faults, name, value)
            if mount.clip is not clip:
                mount.swap(clip)
        if step.kill:
            await stage.up()

    return undo


async def _undo_later(undo: Callable[[], Awaitable[None]], step: Step, *, say: Callable[[str], None]) -> None:
    assert step.lasts is not None
    await asyncio.sleep(step.lasts)
    await undo()
    say(f"{step.at + step.lasts:g} s: over: {step.text()}")


def _mounts(step: Step, mounts: Mapping[str, Mount]) -> list[Mount]:
    return list(mounts.values()) if step.camera is None else [mounts[step.camera]]


_DEFAULT_OPTIONS = CameraOptions()


class FakeCamera:
    """An RTSP server with one camera, or one for each name of a mapping, in a thread of its own.

    ```python
    with FakeCamera(clip, credentials="user:secret") as camera:
        ...  # read camera.login_url
        camera.faults.loss = 0.05
        camera.kill()
        camera.restart()
    ```

    `port` 0 takes a free one, which nobody else is given before `stop`, so that `restart` finds it. `credentials`
    (`user:password`) may be set to others while it runs. With `certificate` (PEM, key and certificate) it speaks
    `rtsps`. `script` says what happens when, and begins again after `repeat_seconds`. `on_event` hears one line for
    everything that happens, in the camera's thread. All methods may be called from any thread but that one. Raises
    ValueError when RTP cannot carry a clip, or the script names other cameras.
    """

    def __init__(
        self,
        clip: Clip | Mapping[str, Clip],
        *,
        port: int = 0,
        credentials: str | None = None,
        certificate: Path | None = None,
        options: CameraOptions = _DEFAULT_OPTIONS,
        script: Sequence[Step] = (),
        repeat_seconds: float | None = None,
        seed: int = 0,
        on_event: Callable[[str], None] | None = None,
    ) -> None:
        clips = {"cam": clip} if isinstance(clip, Clip) else clip
        self.mounts = {name: Mount(name, one, seed=seed) for name, one in clips.items()}
        self.port = port
        self.connections = 0
        self._tls = _tls_context(certificate)
        self._script = Script.of(script, repeat_seconds=repeat_seconds, cameras=clips)
        self._house = SessionHost(
            self.mounts, options, credentials, Guard(options.authentication, realm="fake camera"), on_event or _nobody
        )
        self._worker: LoopThread | None = None
        self._listener = Listener(self._converse)
        self._claim: socket.socket | None = None
        self._performance: asyncio.Task[None] | None = None

    @property
    def credentials(self) -> str | None:
        """User and password that it asks for, `user:password`; None lets everybody in."""
        return self._house.credentials

    @credentials.setter
    def credentials(self, value: str | None) -> None:
        self._house.credentials = value

    @property
    def url(self) -> str:
        """Where the first camera is, without credentials."""
        return self.url_of(next(iter(self.mounts)))

    @property
    def login_url(self) -> str:
        """The same with credentials."""
        return self.url if self.credentials is None else self.url.replace("://", f"://{self.credentials}@", 1)

    def url_of(self, name: str) -> str:
        """Where that camera is."""
        scheme = "rtsp" if self._tls is None else "rtsps"
        return f"{scheme}://{self._house.options.host}:{self.port}/{name}"

    @property
    def faults(self) -> Faults:
        """What is wrong with the first camera; `mounts[name].faults` for another."""
        return next(iter(self.mounts.values())).faults

    @property
    def sent(self) -> Sent:
        """What the first camera has sent; `mounts[name].sent` for another."""
        return next(iter(self.mounts.values())).sent

    def swap(self, clip: Clip) -> None:
        """Show another clip in the first camera; `mounts[name].swap(clip)` for another."""
        next(iter(self.mounts.values())).swap(clip)

    def start(self) -> None:
        """Listen. Raises OSError when the port is taken."""
        self._worker = LoopThread("camera")
        self._worker.start()
        try:
            self._worker.call(self._begin())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Close everything and end the thread; harmless when called again."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.call(self._finish())
        worker.stop()

    def kill(self) -> None:
        """Close all sockets at once, without a word, as a process that is killed does; then connections are refused."""
        self._running.call(self.down())

    def restart(self) -> None:
        """Listen again, on the same port, after `kill`."""
        self._running.call(self.up())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def up(self) -> None:
        """`restart` for those in the camera's own loop."""
        if not self._listener.is_open:
            host = self._house.options.host
            self._claim = self._claim or await _claim(host, self.port)
            self.port = self._claim.getsockname()[1]
            await self._listener.open(host, self.port, tls=self._tls)

    async def down(self) -> None:
        """`kill` for those in the camera's own loop."""
        await self._listener.close()

    @property
    def _running(self) -> LoopThread:
        if self._worker is None:
            raise RuntimeError("the camera is not started")
        return self._worker

    async def _begin(self) -> None:
        await self.up()
        if self._script.steps:
            self._performance = asyncio.create_task(perform(self._script, self, say=self._house.say))

    async def _finish(self) -> None:
        if self._performance is not None:
            self._performance.cancel()
            await asyncio.wait([self._performance])
        await self.down()
        if self._claim is not None:
            self._claim.close()
            self._claim = None

    async def _converse(self, reader: asyncio.StreamReader, connection: Connection) -> None:
        self.connections += 1
        await RtspSession(self._house, connection).run(reader)


def _nobody(text: str) -> None:
    del text


async def _claim(host: str, port: int) -> socket.socket:
    """A socket that does not listen but has a port, so that the system gives it to nobody else. Raises OSError."""
    [(family, kind, protocol, _, address), *_] = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    claim = socket.socket(family, kind, protocol)
    try:
        claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        claim.bind(address)
    except OSError:
        claim.close()
        raise
    return claim


def _tls_context(certificate: Path | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context
