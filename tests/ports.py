"""Ports for servers that get theirs in advance, that go away and come back, or that are never there."""

from __future__ import annotations

import atexit
import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

_FIRST, _BLOCKS, _SIZE = 20_000, 25, 500
"""Above 19999, up to which Ray takes ports for its processes, and below 32768, where the ports begin that the system
gives to whoever asks for any: it would give one to another test while nobody listens at it.
"""


def free_port() -> int:
    """Return a port that nobody listens at, and that no other process of the tests is given."""
    for port in itertools.islice(_claimed(), _SIZE):
        with suppress(OSError):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(type=kind) as probe:
                    probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"all {_SIZE} ports of this process are in use")


@cache
def _claimed() -> Iterator[int]:
    """Claim a block of ports for this process while it lives, by the name of a Unix socket: only one can take it."""
    for number in range(_BLOCKS):
        block = (os.getpid() + number) % _BLOCKS
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0sightline-test-ports-{block}")
        except OSError:
            claim.close()
        else:
            atexit.register(claim.close)
            first = _FIRST + block * _SIZE
            return itertools.cycle(range(first, first + _SIZE))
    raise RuntimeError(f"{_BLOCKS} processes of tests have claimed ports already")
