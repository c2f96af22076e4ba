"""Read standard input and named pipes, so that a wait for the writer can be ended from another thread.

FFmpeg's own protocols (`pipe:`, `fd:`) wait in `read` until something comes, whoever wants them to stop. Here PyAV
calls `PipeInput.read`, which waits for the pipe and for a call of `stop` alike.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
import sys
from contextlib import suppress
from threading import Lock

from sightline.graph.fields import STANDARD_STREAM
from sightline_plugins.decode.failures import unreadable
from sightline_plugins.decode.kinds import name_of_pipe

PIPE_BYTES = 1 << 18
"""The most bytes of one read."""
_LARGEST_PIPE = 1 << 20
"""Bytes that the kernel may hold for a pipe, where it allows that: a frame of raw video fits, and its writer goes on
while it is decoded.
"""
_HEAD_BYTES = 12
_LOCK = Lock()
_READ: set[tuple[int, int]] = set()
"""Device and inode of what is read now in this process: a second reader would get a part of the bytes."""


class PipeInput:
    """Bytes from standard input (`-`) or a named pipe, as PyAV reads a file. One thread reads and closes it.

    A named pipe without a writer is waited for. It ends when the last writer closes it. What the process has as
    standard input stays open when this is closed. Raises StreamUnreadable, naming `stream`, for a terminal, for
    standard input that is closed, and for what is being read already.
    """

    def __init__(self, uri: str, *, stream: str) -> None:
        self.name = name_of_pipe(uri)
        self.received_bytes = 0
        self.head = b""
        """Its first bytes, up to twelve."""
        self._lock = Lock()
        self._is_stopped = False
        self._descriptor = _opened(uri, stream=stream)
        self._wake_reader, self._wake_writer = os.pipe()
        with suppress(OSError, AttributeError):  # no pipe, but a file or a socket
            fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, _LARGEST_PIPE)
        about = os.fstat(self._descriptor)
        self._identity = (about.st_dev, about.st_ino)
        with _LOCK:
            is_taken = self._identity in _READ
            _READ.add(self._identity)
        if is_taken:
            self._close()
            raise unreadable(f"{self.name} is read by another stream already", stream=stream, uri=uri)
        if stat.S_ISREG(about.st_mode):  # `< gate.mp4`; PyAV goes back in what has these methods
            self.seek, self.tell = self._seek, self._tell
        self._poll = select.poll()
        for descriptor in (self._descriptor, self._wake_reader):
            self._poll.register(descriptor, select.POLLIN)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, as soon as there are some; none at the end, and after `stop`. Raises OSError."""
        data = None
        while data is None:
            self._poll.poll()
            try:
                data = b"" if self._is_stopped else os.read(self._descriptor, size)
            except BlockingIOError:  # somebody else has read what was there
                continue
        if len(self.head) < _HEAD_BYTES:
            self.head += data[: _HEAD_BYTES - len(self.head)]
        self.received_bytes += len(data)
        return data

    def _seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return os.lseek(self._descriptor, offset, whence)

    def _tell(self) -> int:
        return os.lseek(self._descriptor, 0, os.SEEK_CUR)

    def stop(self) -> None:
        """Let the input end now, also while it is waited for. From any thread; harmless when called again."""
        with self._lock:
            if not self._is_stopped:
                self._is_stopped = True
                os.write(self._wake_writer, b".")

    def close(self) -> None:
        """Release it; harmless when called again."""
        with self._lock:
            if self._descriptor < 0:
                return
            self._is_stopped = True
            self._close()
        with _LOCK:
            _READ.discard(self._identity)

    def _close(self) -> None:
        for descriptor in (self._descriptor, self._wake_reader, self._wake_writer):
            os.close(descriptor)
        self._descriptor = -1


def _opened(uri: str, *, stream: str) -> int:
    """A descriptor of our own."""
    if uri != STANDARD_STREAM:
        try:
            # Otherwise opening waits until somebody writes, and nobody could end that.
            return os.open(uri, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise unreadable(f"the pipe cannot be opened: {error.strerror}", stream=stream, uri=uri) from None
    if sys.__stdin__ is None:  # Python found it closed; its number may be that of any file by now
        raise unreadable("standard input is closed", stream=stream, uri=uri)
    try:
        if os.isatty(0):
            cause = "standard input is a terminal, which sends no video; pipe it in, as in: ffmpeg ... -f mpegts - | "
            raise unreadable(f"{cause}sightline run ...", stream=stream, uri=uri)
        return fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError as error:
        reason = "closed" if error.errno == errno.EBADF else f"not readable ({error.strerror})"
        raise unreadable(f"standard input is {reason}", stream=stream, uri=uri) from None
