"""The controller's process at the head of a cluster: `python -m sightline_plugins.commands.cluster.program`.

It takes its charter from the first line of standard input, prints one line, `ready` or what is wrong, and ends when
standard input does: with who has started it, however that ends.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sightline.cli.logs import log_to_stderr
from sightline.cluster.controller import Controller
from sightline.cluster.endpoint import ControllerEndpoint, listen
from sightline.cluster.model import ClusterEvent, ClusterOptions, StreamSpec
from sightline.cluster.store import FileStore
from sightline.cluster.wire import token_from_environment
from sightline.errors import ConfigurationError, SightlineError
from sightline.graph.site import SystemClock

READY = "ready"
_FORMER_SECONDS = 10.0
"""For so long, a controller waits for the end of the one before it."""
_AGAIN_SECONDS = 0.05
_Made = TypeVar("_Made")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Charter:
    """What a controller is started with: the address it listens at, the file of its state, the version of all
    machines, options, and the streams that are wanted, by name, as plain data of `StreamSpec`.
    """

    host: str
    port: int
    store: str
    version: str
    options: ClusterOptions
    streams: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(
        cls,
        streams: Mapping[str, StreamSpec],
        *,
        address: tuple[str, int],
        store: Path,
        version: str,
        options: ClusterOptions,
    ) -> Charter:
        """A charter for these streams."""
        return cls(*address, str(store), version, options, {name: asdict(spec) for name, spec in streams.items()})

    def to_json(self) -> str:
        """It as text, for `from_json`."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Charter:
        """What `to_json` gave."""
        return msgspec.json.decode(text, type=cls)


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
            {name: StreamSpec(**one) for name, one in wanted.streams.items()},
            store=self._store,
            clock=SystemClock(),
            options=wanted.options,
            version=wanted.version,
        )
        self._endpoint = ControllerEndpoint(controller, listening, token=token_from_environment(), on_event=self._note)
        self._endpoint.start()

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
    sys.stdin.read()
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
