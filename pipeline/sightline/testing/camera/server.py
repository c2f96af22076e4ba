"""A camera that is not there: an RTSP server whose faults are set on purpose."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from sightline.rtsp.authentication import Guard
from sightline.rtsp.channels import Connection
from sightline.rtsp.listener import Listener
from sightline.runtime.threads import LoopThread
from sightline.testing.camera.clip import Clip
from sightline.testing.camera.dialog import Dialog, House
from sightline.testing.camera.faults import Faults, Sent
from sightline.testing.camera.mount import Mount
from sightline.testing.camera.options import CameraOptions
from sightline.testing.camera.performance import perform
from sightline.testing.camera.script import Script, Step

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
        self._house = House(
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
        await Dialog(self._house, connection).run(reader)


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
