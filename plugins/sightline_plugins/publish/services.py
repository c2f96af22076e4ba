"""Servers and pushes of one `publish` step, in a thread beside the pipeline."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol

from sightline.graph import Site
from sightline.redaction import redact
from sightline.runtime.sources.health import backoff_seconds
from sightline.runtime.threads import LoopThread
from sightline_plugins.codecs.bitstream import annex_b
from sightline_plugins.encode.settings import ticks_from_ns
from sightline_plugins.publish.broadcast import Broadcast, Image, Viewer
from sightline_plugins.publish.sender import SILENCE_SECONDS, Sending, image_bytes

_STOP_SECONDS = 1.0
_EXIT_SECONDS = 0.7
_STEADY_SECONDS = 10.0
_MOST_STDERR_BYTES = 2_000


class Server(Protocol):
    """A server of published streams, in an event loop."""

    async def start(self) -> None:
        """Listen. Raises OutputError."""
        ...

    async def stop(self) -> None:
        """Disconnect all clients and stop listening."""
        ...


class Services:
    """Runs servers and pushes in one thread, from `start` to `close`."""

    def __init__(self, servers: Sequence[Server], *, site: Site) -> None:
        self._servers = servers
        self._site = site
        self._thread = LoopThread(site.element_id)
        self._pushes: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start all servers. Raises OutputError, with nothing left running."""
        self._thread.start()
        try:
            self._thread.call(self._start())
        except BaseException:
            self.close()
            raise

    def push(self, broadcast: Broadcast[Image], url: str) -> None:
        """Send a stream to a server until it ends."""
        self._thread.post(lambda: self._push(broadcast, url))

    def close(self) -> None:
        """End everything; pushes may finish first. Harmless when called again."""
        if self._thread.running:
            self._thread.call(self._stop())
            self._thread.stop()

    async def _start(self) -> None:
        for server in self._servers:
            await server.start()

    async def _stop(self) -> None:
        if self._pushes:
            _, late = await asyncio.wait(self._pushes, timeout=_STOP_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        for server in self._servers:
            await server.stop()

    def _push(self, broadcast: Broadcast[Image], url: str) -> None:
        task = asyncio.get_running_loop().create_task(_push(broadcast, url, site=self._site))
        self._pushes.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._pushes.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error  # a defect: the loop reports it


async def _push(broadcast: Broadcast[Image], url: str, *, site: Site) -> None:
    """Send a stream to a server until it ends, through a process that is started again when the server is lost."""
    failures = 0
    while not broadcast.is_over:
        begun = asyncio.get_running_loop().time()
        async with Viewer(broadcast) as viewer:
            failure = await _attempt(viewer, url)
        if failure is None:
            continue
        lasted = asyncio.get_running_loop().time() - begun
        failures = 0 if lasted > _STEADY_SECONDS else failures + 1
        if failures <= 1:
            site.warn(f"pushing to {redact(url)} broke off: {failure}; it is tried again", stream=broadcast.name)
        await asyncio.sleep(backoff_seconds(failures))


async def _attempt(viewer: Viewer[Image], url: str) -> str | None:
    """Send through one process; return why it failed, or None when the stream ended or its format changed."""
    first = await viewer.next()
    if first is None:
        return None
    command = [sys.executable, "-m", "sightline_plugins.publish.sender"]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=DEVNULL, stderr=PIPE)
    errors = asyncio.ensure_future(_read_errors(process))
    try:
        with suppress(ConnectionError):
            await _feed(process, viewer, first, url=url)
        return await _verdict(process, errors)
    finally:
        await _uncancelled(_end(process, errors))


async def _feed(process: Process, viewer: Viewer[Image], first: Image, *, url: str) -> None:
    assert process.stdin is not None
    process.stdin.write(Sending(url, first.format.codec.ffmpeg_name, first.format.size_wh).encoded())
    image: Image | None = first
    while image is not None and image.format is first.format:
        times = {"pts_ticks": ticks_from_ns(image.pts_ns), "dts_ticks": ticks_from_ns(image.dts_ns)}
        process.stdin.write(image_bytes(annex_b(image.all_units), **times, is_key=image.is_key))
        await process.stdin.drain()
        image = await viewer.next()
    process.stdin.close()
    await process.stdin.wait_closed()


async def _read_errors(process: Process) -> str:
    assert process.stderr is not None
    text = b""
    while part := await process.stderr.read(_MOST_STDERR_BYTES):
        text = (text + part)[-_MOST_STDERR_BYTES:]
    return text.decode(errors="replace").strip()


async def _verdict(process: Process, errors: asyncio.Future[str]) -> str | None:
    try:
        status = await asyncio.wait_for(process.wait(), _EXIT_SECONDS)
    except TimeoutError:
        return None  # the stream is over, and the server is slow to confirm
    if status == 0:
        return None
    if status == -signal.SIGALRM:
        return f"the server took nothing for {SILENCE_SECONDS:g} s"
    lines = (await errors).splitlines()
    return redact(lines[-1]) if lines else f"its process ended with status {status}"


async def _end(process: Process, errors: asyncio.Future[str]) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.stdin is not None:
        process.stdin.close()
        with suppress(ConnectionError):
            await process.stdin.wait_closed()
    errors.cancel()
    await asyncio.wait([errors])


async def _uncancelled(work: Coroutine[Any, Any, None]) -> None:
    """Finish the work even when the task that waits for it is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
