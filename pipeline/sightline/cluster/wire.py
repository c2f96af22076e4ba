"""How a worker and the controller speak: one TCP connection for each worker, JSON messages, and a token on both sides.

A message is its length in four bytes (most significant first) and so many bytes of JSON. At the start, both sides prove
that they have the token, by HMAC-SHA256 over random bytes of both; the token itself is never sent. Messages are neither
encrypted nor signed: the network between the machines has to be a private one.

Refused connections prove what silence cannot. The controller listens from before it reads its state until its process
ends, so where its address refuses a connection, none runs. A worker's process listens as well (`Presence`), without
taking connections: where that port refuses one, the process has ended. Both hold only where nothing in between refuses
in their stead: firewalls have to drop what they do not let through.
"""

from __future__ import annotations

import hmac
import os
import secrets
import select
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import asdict
from threading import Lock
from typing import Any

import msgspec

from sightline.cluster.model import (
    ClusterConfiguration,
    ClusterStatus,
    ConfigurationOrder,
    Grant,
    GrantedStream,
    Heartbeat,
    Refusal,
    RolloutStatus,
    WorkerStatus,
)
from sightline.errors import ConfigurationError

TOKEN_VARIABLE = "SIGHTLINE_CLUSTER_TOKEN"  # noqa: S105  a name
SHORTEST_TOKEN = 32
_MAGIC = b"SLC1"
_RANDOM_BYTES = _MAC_BYTES = 32
_LARGEST_MESSAGE = 64_000_000
_REFUSED = bytes(_MAC_BYTES)


class TokenRefused(ConfigurationError):
    """The other side has another token."""


def token_from_environment() -> str:
    """Return the token of the cluster. Raises ConfigurationError when there is none, or a short one."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    how = f'for example: export {TOKEN_VARIABLE}="$(openssl rand -hex 32)", the same on all machines'
    if not token:
        raise ConfigurationError(f"a cluster needs a token, because whoever joins it runs what it likes: {how}")
    if len(token) < SHORTEST_TOKEN:
        raise ConfigurationError(f"{TOKEN_VARIABLE} has {len(token)} characters: give {SHORTEST_TOKEN} or more, {how}")
    return token


class Connection:
    """A connection after its handshake. One thread may receive and any thread send."""

    def __init__(self, connected: socket.socket, *, timeout_seconds: float) -> None:
        """Take a socket after its handshake. Sending takes `timeout_seconds` at most."""
        connected.settimeout(None)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(timeout_seconds))
        self._socket = connected
        self._sending = Lock()
        self._is_open = True
        self._interrupts = os.eventfd(0, os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)
        self._poll.register(self._interrupts, select.POLLIN)

    @classmethod
    def to_controller(cls, address: tuple[str, int], *, token: str, timeout_seconds: float) -> Connection:
        """Connect as a worker or a person. Raises ConnectionRefusedError where nothing listens, TokenRefused, and
        OSError.
        """
        until = time.monotonic() + timeout_seconds
        connected = socket.create_connection(address, timeout=timeout_seconds)
        try:
            _set_time(connected, until)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            greeting = _receive(connected, len(_MAGIC) + _RANDOM_BYTES, until=until)
            if not greeting.startswith(_MAGIC):
                raise OSError(f"{address[0]}:{address[1]} is no controller of a cluster")
            theirs, own = greeting[len(_MAGIC) :], secrets.token_bytes(_RANDOM_BYTES)
            connected.sendall(own + _mac(token, b"worker", theirs, own))
            answer = _receive(connected, _MAC_BYTES, until=until)
            if not hmac.compare_digest(answer, _mac(token, b"controller", theirs, own)):
                raise TokenRefused(
                    f"the controller at {address[0]}:{address[1]} has another token: set {TOKEN_VARIABLE} to the same "
                    "on all machines"
                )
        except BaseException:
            connected.close()
            raise
        return cls(connected, timeout_seconds=timeout_seconds)

    @classmethod
    def from_worker(cls, connected: socket.socket, *, token: str, timeout_seconds: float) -> Connection:
        """Greet who has connected. Raises TokenRefused and OSError; the socket stays the caller's then."""
        until = time.monotonic() + timeout_seconds
        _set_time(connected, until)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own = secrets.token_bytes(_RANDOM_BYTES)
        connected.sendall(_MAGIC + own)
        answer = _receive(connected, _RANDOM_BYTES + _MAC_BYTES, until=until)
        theirs, mac = answer[:_RANDOM_BYTES], answer[_RANDOM_BYTES:]
        if not hmac.compare_digest(mac, _mac(token, b"worker", own, theirs)):
            connected.sendall(_REFUSED)
            raise TokenRefused("it has another token")
        connected.sendall(_mac(token, b"controller", own, theirs))
        return cls(connected, timeout_seconds=timeout_seconds)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises OSError."""
        data = msgspec.json.encode(message)
        with self._sending:
            self._socket.sendall(struct.pack(">I", len(data)) + data)

    def nudge(self, message: Mapping[str, Any]) -> None:
        """Send a small message if that takes no time; else leave it out. Never raises."""
        if not self._sending.acquire(blocking=False):
            return
        try:
            data = msgspec.json.encode(message)
            data = struct.pack(">I", len(data)) + data
            if self._socket.send(data, socket.MSG_DONTWAIT) != len(data):
                self._interrupt()  # half a message: what follows could not be read
        except OSError:
            pass  # the receiving thread sees the same
        finally:
            self._sending.release()

    def receive(self, *, timeout_seconds: float | None = None) -> Mapping[str, Any]:
        """Return the next message. Raises OSError at the end of the connection, for what is no message, for silence,
        and after `interrupt`.
        """
        (length,) = struct.unpack(">I", self._bytes(4, timeout_seconds))
        if length > _LARGEST_MESSAGE:
            raise OSError(f"a message of {length} bytes: {_LARGEST_MESSAGE} are allowed")
        data = self._bytes(length, timeout_seconds)
        try:
            return msgspec.json.decode(data, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise OSError(f"no message: {error}") from error

    def interrupt(self) -> None:
        """End the present and each later `receive`. From any thread."""
        with self._sending:
            self._interrupt()

    def close(self) -> None:
        """Close it. Only by the thread that receives, and once."""
        with self._sending:
            self._socket.close()
            os.close(self._interrupts)
            self._is_open = False

    def _interrupt(self) -> None:
        if self._is_open:
            os.eventfd_write(self._interrupts, 1)

    def _bytes(self, count: int, timeout_seconds: float | None) -> bytes:
        data = bytearray()
        while len(data) < count:
            ready = self._poll.poll(None if timeout_seconds is None else timeout_seconds * 1000)
            if not ready:
                raise TimeoutError("nothing came")
            if any(one == self._interrupts for one, _ in ready):
                raise OSError("interrupted")
            part = self._socket.recv(min(count - len(data), 1 << 16))
            if not part:
                raise OSError("the connection has ended")
            data += part
        return bytes(data)


class Presence:
    """Proves to a controller that this process lives: a port that refuses connections once the process has ended."""

    def __init__(self, host: str) -> None:
        """Listen at an address of this machine. Raises ConfigurationError when that cannot be."""
        try:
            self._listening = socket.create_server((host, 0), backlog=1)
        except OSError as error:
            raise ConfigurationError(f"{host!r} is no address of this machine: {error.strerror}") from error
        self.address: tuple[str, int] = self._listening.getsockname()[:2]
        """Where it listens."""

    def close(self) -> None:
        """End it as the end of the process does."""
        self._listening.close()


def has_ended(address: tuple[str, int], *, timeout_seconds: float) -> bool:
    """Whether the process that has a `Presence` at an address is known to have ended."""
    try:
        socket.create_connection(address, timeout=timeout_seconds).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def beat_from(message: object) -> Heartbeat:
    """The heartbeat in a message. Raises msgspec.ValidationError."""
    return msgspec.convert(message, Heartbeat)


def plain_answer(answer: Grant | Refusal | None) -> Mapping[str, Any]:
    """What the controller answers, for a message."""
    if isinstance(answer, Grant):
        return {"grant": asdict(answer)}
    return {} if answer is None else {"refusal": answer.text}


def answer_from(message: Mapping[str, Any]) -> Grant | Refusal | None:
    """What `plain_answer` was given."""
    if "refusal" in message:
        return Refusal(message["refusal"])
    if "grant" not in message:
        return None
    grant = dict(message["grant"])
    streams = grant.pop("streams")
    granted = None if streams is None else tuple(GrantedStream(**one) for one in streams)
    order = grant.pop("order")
    ordered = None
    if order is not None:
        ordered = ConfigurationOrder(**{**order, "configuration": ClusterConfiguration(**order["configuration"])})
    return Grant(**grant, streams=granted, order=ordered)


def status_from(message: Mapping[str, Any]) -> ClusterStatus:
    """The status in a message, of which `dataclasses.asdict` made the plain form."""
    plain = dict(message)
    workers = tuple(WorkerStatus(**one) for one in plain.pop("workers"))
    assignment = {name: (worker, epoch) for name, (worker, epoch) in plain.pop("assignment").items()}
    rollout, moving = plain.pop("rollout"), tuple(plain.pop("moving"))
    progress = RolloutStatus(**{**rollout, "proved": tuple(rollout["proved"])})
    return ClusterStatus(workers=workers, assignment=assignment, moving=moving, rollout=progress, **plain)


def _mac(token: str, side: bytes, one: bytes, other: bytes) -> bytes:
    return hmac.digest(token.encode(), side + one + other, "sha256")


def _receive(connected: socket.socket, count: int, *, until: float) -> bytes:
    """Receive so many bytes of a handshake. Raises OSError."""
    data = bytearray()
    while len(data) < count:
        _set_time(connected, until)
        part = connected.recv(count - len(data))
        if not part:
            raise OSError("it ended within the handshake")
        data += part
    return bytes(data)


def _timeval(seconds: float) -> bytes:
    return struct.pack("ll", int(seconds), int(seconds % 1 * 1e6) or 1)


def _set_time(connected: socket.socket, until: float) -> None:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    connected.settimeout(left)
