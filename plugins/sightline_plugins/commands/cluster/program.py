"""The controller's process at the head of a cluster: `python -m sightline_plugins.commands.cluster.program`.

It takes its charter from the first line of standard input, and prints one line, `ready` or what is wrong. Each later
line is another charter, with what is wanted from then on. It ends when standard input does: with who has started it,
however that ends.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import msgspec

from sightline.cli.logs import log_to_stderr
from sightline.cluster.controller import Controller
from sightline.cluster.endpoint import ControllerEndpoint, listen
from sightline.cluster.model import ClusterConfiguration, ClusterEvent
from sightline.cluster.store import FileStore
from sightline.cluster.wire import token_from_environment
from sightline.errors import ConfigurationError, SightlineError
from sightline.graph.site import SystemClock
from sightline_plugins.commands.cluster.charter import Charter

READY = "ready"
_FORMER_SECONDS = 10.0
"""For so long, a controller waits for the end of the one before it."""
_AGAIN_SECONDS = 0.05
_Made = TypeVar("_Made")
_LOG = logging.getLogger(__name__)


class ControllerProgram:
    """A controller that answers at its address as long as its process lives.

    It listens before it reads its state: where the address refuses a connection, no controller runs.
    """

    def __init__(self, wanted: Charter) -> None:
        """Start it. Raises SightlineError."""
        listening = _when_free(lambda: listen((wanted.host, wanted.port)))
        self._store = _when_free(lambda: FileStore(Path(wanted.store)))
        self._events = Path(f"{wanted.store}.events.jsonl")
        self._has_failed = False
        controller = Controller(
            wanted.specs,
            store=self._store,
            clock=SystemClock(),
            options=wanted.options,
            version=wanted.version,
            configuration=ClusterConfiguration(**wanted.configuration),
        )
        self._endpoint = ControllerEndpoint(controller, listening, token=token_from_environment(), on_event=self._note)
        self._endpoint.start()

    def want(self, wanted: Charter) -> None:
        """Go on with the streams and the configuration of another charter."""
        self._endpoint.call(lambda controller: controller.desire(wanted.specs))
        self._endpoint.call(lambda controller: controller.configure(ClusterConfiguration(**wanted.configuration)))

    def close(self) -> None:
        """End the controller before its process ends."""
        self._endpoint.close()
        self._store.close()

    def _note(self, event: ClusterEvent) -> None:
        line = msgspec.json.encode({"time_ns": time.time_ns(), **asdict(event)}) + b"\n"
        try:
            with self._events.open("ab") as file:
                file.write(line)
        except OSError as error:
            if not self._has_failed:  # repeats are folded
                _LOG.error("events cannot be written to %s: %s", self._events, error.strerror)
            self._has_failed = True
        else:
            self._has_failed = False


def main() -> None:
    """Run a controller until standard input ends."""
    log_to_stderr(logging.INFO)
    try:
        program = ControllerProgram(Charter.from_json(sys.stdin.readline()))
    except SightlineError as error:
        _say(" ".join(str(error).split()))
        sys.exit(1)
    _say(READY)
    for line in sys.stdin:
        program.want(Charter.from_json(line))
    program.close()


def _say(line: str) -> None:
    """Answer who has started this."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _when_free(make: Callable[[], _Made]) -> _Made:
    """Make something that the controller before may still have. Raises ConfigurationError after some seconds."""
    until = time.monotonic() + _FORMER_SECONDS
    while True:
        try:
            return make()
        except ConfigurationError:
            if time.monotonic() > until:
                raise
            time.sleep(_AGAIN_SECONDS)


if __name__ == "__main__":
    main()
