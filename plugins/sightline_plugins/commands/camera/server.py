"""The fake camera's server."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from sightline.errors import ConfigurationError
from sightline.runtime.threads import LoopThread
from sightline_plugins.commands.camera.clip import Clip, Faults, Mount, Sent
from sightline_plugins.commands.camera.script import Script, Step, perform
from sightline_plugins.commands.camera.session import CameraOptions, RtspSession, ServerState
from sightline_plugins.rtsp.messages import Guard
from sightline_plugins.rtsp.transport import Connection, Listener


def self_signed_certificate(folder: Path, *, host: str = "127.0.0.1") -> Path:
    """Make a key and a certificate for `host`, valid for one day, and return the PEM file that holds both.

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


_DEFAULT_OPTIONS = CameraOptions()


class FakeCamera:
    """An RTSP server with one camera, or one for each name of a mapping, in its own thread.

    ```python
    with FakeCamera(clip, credentials="user:secret") as camera:
        ...  # read camera.login_url
        camera.faults.loss = 0.05
        camera.kill()
        camera.restart()
    ```

    `port` 0 takes a free one and reserves it until `stop`, so that `restart` can use it again. `credentials`
    (`user:password`; None admits everybody) may change while it runs. With `certificate` (PEM, key and certificate) it
    speaks `rtsps`. `script` repeats after `repeat_seconds`. `on_event` is called with one line for every event, in the
    camera's thread. All methods may be called from any other thread. Raises ValueError when RTP cannot carry a clip, or
    the script names other cameras.
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
        self._state = ServerState(
            self.mounts, options, credentials, Guard(options.authentication, realm="fake camera"), on_event
        )
        self._worker: LoopThread | None = None
        self._listener = Listener(self._converse)
        self._claim: socket.socket | None = None
        self._performance: asyncio.Task[None] | None = None

    @property
    def credentials(self) -> str | None:
        """Required user and password, `user:password`; None admits everybody."""
        return self._state.credentials

    @credentials.setter
    def credentials(self, value: str | None) -> None:
        self._state.credentials = value

    @property
    def url(self) -> str:
        """URL of the first camera, without credentials."""
        return self.url_of(next(iter(self.mounts)))

    @property
    def login_url(self) -> str:
        """URL of the first camera, with credentials."""
        return self.url if self.credentials is None else self.url.replace("://", f"://{self.credentials}@", 1)

    def url_of(self, name: str) -> str:
        """URL of a camera, without credentials."""
        scheme = "rtsp" if self._tls is None else "rtsps"
        return f"{scheme}://{self._state.options.host}:{self.port}/{name}"

    @property
    def faults(self) -> Faults:
        """Faults of the first camera; `mounts[name].faults` for another."""
        return next(iter(self.mounts.values())).faults

    @property
    def sent(self) -> Sent:
        """Counters of the first camera; `mounts[name].sent` for another."""
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
        """Close all sockets at once, as a killed process does; then connections are refused."""
        self._running.call(self.down())

    def restart(self) -> None:
        """Listen again, on the same port, after `kill`."""
        self._running.call(self.up())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    async def up(self) -> None:
        """`restart`, in the camera's own loop."""
        if not self._listener.is_open:
            host = self._state.options.host
            self._claim = self._claim or await _claim(host, self.port)
            self.port = self._claim.getsockname()[1]
            await self._listener.open(host, self.port, tls=self._tls)

    async def down(self) -> None:
        """`kill`, in the camera's own loop."""
        await self._listener.close()

    @property
    def _running(self) -> LoopThread:
        if self._worker is None:
            raise RuntimeError("the camera is not started")
        return self._worker

    async def _begin(self) -> None:
        await self.up()
        if self._script.steps:
            self._performance = asyncio.create_task(perform(self._script, self, say=self._state.say))

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
        await RtspSession(self._state, connection).run(reader)


async def _claim(host: str, port: int) -> socket.socket:
    """Bind a socket that does not listen, to reserve its port. Raises OSError."""
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
