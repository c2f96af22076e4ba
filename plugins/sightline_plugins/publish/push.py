"""Pushing streams to servers: a process for each, begun again when it breaks off."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from sightline.redaction import redact
from sightline.runtime.sources.health import backoff_seconds
from sightline_plugins.codecs.bitstream import annex_b
from sightline_plugins.encode.settings import ticks_from_ns
from sightline_plugins.publish.broadcast import Broadcast, Image, Viewer
from sightline_plugins.publish.sender import SILENCE_SECONDS, Sending, image_bytes
from sightline_plugins.rtsp.payloads import Codec

_NAMES = {Codec.H264: "h264", Codec.H265: "hevc", Codec.MJPEG: "mjpeg"}
_FAREWELL_SECONDS = 0.7
_STEADY_SECONDS = 10.0
_MOST_WORDS = 2_000


class Push:
    """One stream on its way to one server, for as long as the stream goes on; lives in an event loop."""

    def __init__(self, broadcast: Broadcast, url: str, *, warn: Callable[[str], None]) -> None:
        self.attempts = 0
        self._broadcast = broadcast
        self._url = url
        self._warn = warn
        self._failures = 0

    async def run(self) -> None:
        """Send until the stream ends, beginning again when the server is lost."""
        while not self._broadcast.is_over:
            begun = asyncio.get_running_loop().time()
            async with Viewer(self._broadcast) as viewer:
                trouble = await self._attempt(viewer)
            if trouble is None:
                continue
            lasted = asyncio.get_running_loop().time() - begun
            self._failures = 0 if lasted > _STEADY_SECONDS else self._failures + 1
            if self._failures <= 1:
                self._warn(f"pushing to {redact(self._url)} broke off: {trouble}; it is tried again")
            await asyncio.sleep(backoff_seconds(self._failures))

    async def _attempt(self, viewer: Viewer) -> str | None:
        """Send through one process; what went wrong, or None when the stream ended or its format changed."""
        first = await viewer.next()
        if first is None:
            return None
        self.attempts += 1
        command = [sys.executable, "-m", "sightline_plugins.publish.sender"]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=PIPE
        )
        words = asyncio.ensure_future(_last_words(process))
        try:
            with suppress(ConnectionError):
                await self._feed(process, viewer, first)
            return await _verdict(process, words)
        finally:
            await _to_its_end(_end(process, words))

    async def _feed(self, process: Process, viewer: Viewer, first: Image) -> None:
        assert process.stdin is not None
        codec = _NAMES[first.format.codec]
        process.stdin.write(Sending(self._url, codec, first.format.size_wh).encoded())
        image: Image | None = first
        while image is not None and image.format is first.format:
            times = {"pts_ticks": ticks_from_ns(image.pts_ns), "dts_ticks": ticks_from_ns(image.dts_ns)}
            process.stdin.write(image_bytes(annex_b(image.all_units), **times, is_key=image.is_key))
            await process.stdin.drain()
            image = await viewer.next()
        process.stdin.close()
        await process.stdin.wait_closed()


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Do it all, also when the task that waits for it is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


async def _last_words(process: Process) -> str:
    assert process.stderr is not None
    words = b""
    while part := await process.stderr.read(_MOST_WORDS):
        words = (words + part)[-_MOST_WORDS:]
    return words.decode(errors="replace").strip()


async def _verdict(process: Process, words: asyncio.Future[str]) -> str | None:
    try:
        status = await asyncio.wait_for(process.wait(), _FAREWELL_SECONDS)
    except TimeoutError:
        return None  # the stream is over, and the server takes its time to say so
    if status == 0:
        return None
    if status == -signal.SIGALRM:
        return f"the server took nothing for {SILENCE_SECONDS:g} s"
    lines = (await words).splitlines()
    return redact(lines[-1]) if lines else f"its process ended with status {status}"


async def _end(process: Process, words: asyncio.Future[str]) -> None:
    """Leave nothing behind."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.stdin is not None:
        process.stdin.close()
        with suppress(ConnectionError):
            await process.stdin.wait_closed()
    words.cancel()
    await asyncio.wait([words])
