"""The worker's side: a pipeline that is served to the server in front of it, and ends when that does."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from sightline.pipeline import Pipeline
from sightline.runtime.threads import Worker
from sightline.server.application import ServerOptions, application_of
from sightline.server.limits import Limits
from sightline.server.policy import Policy
from sightline.server.serving import ServerThread
from sightline.server.supervisor.behind import BehindFront

_STDERR = 2
_LOOK_MS = 500
_END_SECONDS = 30.0
_TIMEOUT_SECONDS = 2.0


@contextmanager
def behind_front(pipeline: Pipeline, policy: Policy, *, listening: int, alive: int) -> Iterator[None]:
    """Serve a pipeline to the front while the block is open; to be called before the pipeline is started.

    `policy` is what clients of the API may change. `listening` is the descriptor of a socket, `alive` that of a pipe
    whose other end the front alone has.
    """
    for descriptor in (listening, alive):
        os.set_inheritable(descriptor, False)
    application, served = application_of(pipeline, ServerOptions(policy=policy))
    trusting, place = BehindFront(Limits(application)), socket.socket(fileno=listening)
    server = ServerThread(trusting, place, certificate=None, on_stop=served.feed.close)
    served.start()
    watch = FrontWatch(alive)
    watch.start()
    try:
        yield
    finally:
        watch.stop()
        server.close()
        served.close()


class FrontWatch(Worker):
    """Ends the process as SIGTERM does when the front is gone, and kills it when that takes too long."""

    def __init__(self, alive: int) -> None:
        super().__init__("front-watch")
        self._alive = alive
        self._stopping = Event()

    def stop(self) -> None:
        """End it, and wait a short time for that."""
        self._stopping.set()
        self.wait(_TIMEOUT_SECONDS)

    def work(self) -> None:
        """Wait for the end of the front."""
        poll = select.poll()
        poll.register(self._alive, select.POLLIN)
        while not poll.poll(_LOOK_MS):
            if self._stopping.is_set():
                return
        if self._stopping.is_set():
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _STDERR)  # the front read it: who writes there now would fail
        os.close(nowhere)
        os.kill(os.getpid(), signal.SIGTERM)
        if not self._stopping.wait(_END_SECONDS):
            os.kill(os.getpid(), signal.SIGKILL)
