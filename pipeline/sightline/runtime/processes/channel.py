"""The connection between the main process and one of its workers: whole messages over a pair of sockets."""

from __future__ import annotations

import pickle
import select
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Letter:
    """One message: `kind` says what `content` is."""

    kind: str
    content: Any = None


class ChannelClosed(Exception):
    """The other process has ended, or has closed its end."""


class Channel:
    """Sends and receives letters in their order. Any thread may send; one thread receives.

    The sockets have no name and are passed on by inheritance alone, so nobody else can connect, and nothing is left of
    them when both processes are gone. A sender waits while the other side does not read: that is how a main process
    that cannot keep up slows its workers down. Values are pickled, so only processes of this run may be at the ends.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._sending = Lock()

    def send(self, kind: str, content: Any = None) -> None:
        """Send a letter. Raises ChannelClosed, and what cannot be pickled raises what pickling raises, unsent."""
        data = pickle.dumps((kind, content), protocol=pickle.HIGHEST_PROTOCOL)
        try:
            with self._sending:
                self._socket.sendall(_LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise ChannelClosed from error

    def has_letter(self, timeout_seconds: float) -> bool:
        """Wait for a letter, or for the end of the other side, so long at most; return whether either has come."""
        try:
            return bool(select.select([self._socket], [], [], timeout_seconds)[0])
        except (OSError, ValueError):  # closed by another thread
            return True

    def receive(self) -> Letter:
        """Return the next letter. Raises ChannelClosed, also when the other side ended in the middle of one."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        kind, content = pickle.loads(self._read(length))  # noqa: S301  written by a process of this run
        return Letter(kind, content)

    def close(self) -> None:
        """End the connection for both sides; harmless when called again."""
        with suppress(OSError):  # the other side was first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _read(self, count: int) -> bytearray:
        data = bytearray(count)
        view, filled = memoryview(data), 0
        while filled < count:
            try:
                got = self._socket.recv_into(view[filled:])
            except OSError as error:
                raise ChannelClosed from error
            if not got:
                raise ChannelClosed
            filled += got
        return data
