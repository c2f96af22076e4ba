"""Mosquitto as a child process, and its own subscriber, which reads what we sent."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.delivery.servers import Server, program
from tests.ports import free_port
from tests.waiting import LIMIT_SECONDS, wait_until


class Mosquitto(Server):
    """A broker without persistence; `lines` are added to its configuration."""

    def __init__(self, folder: Path, *lines: str) -> None:
        port = free_port()
        configuration = (f"listener {port} 127.0.0.1", "log_type all", "max_queued_messages 100000", *lines)
        if os.getuid() == 0:
            configuration = ("user root", *configuration)  # another user could not read this folder
        (folder / "mosquitto.conf").write_text("\n".join(configuration) + "\n")
        command = (program("mosquitto", package="mosquitto"), "-c", folder / "mosquitto.conf")
        super().__init__(command, port=port, folder=folder)

    @property
    def log(self) -> str:
        """What it logged since it was made, over all its starts."""
        return (self.folder / "server.log").read_text()


@contextmanager
def broker(folder: Path, *lines: str) -> Iterator[Mosquitto]:
    """Run a broker; anybody may connect unless `lines` say more."""
    server = Mosquitto(folder, *(lines or ("allow_anonymous true",)))
    server.start()
    try:
        yield server
    finally:
        server.kill()


@dataclass(frozen=True, slots=True)
class Got:
    """A message as mosquitto_sub saw it."""

    topic: str
    payload: str
    qos: int
    retain: bool
    properties: dict[str, Any]

    @property
    def body(self) -> Any:
        """The payload, from JSON."""
        return json.loads(self.payload)


class Subscriber:
    """`mosquitto_sub` for some topics (`#` is all); it connects again by itself."""

    def __init__(self, server: Mosquitto, topics: Sequence[str], *options: str, name: str) -> None:
        self.name = name
        self._server = server
        self._file = server.folder / f"{name}.out"
        self._times = 0
        tool = program("mosquitto_sub", package="mosquitto-clients")
        command = [tool, "-p", str(server.port), "-V", "5", "-i", name, "-F", "%j", *options]
        for topic in topics:
            command += ["-t", topic]
        with self._file.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stdin=subprocess.DEVNULL)
        self.wait_until_subscribed()

    def wait_until_subscribed(self) -> None:
        """Wait until the broker has accepted the subscriptions: the first time, or once more."""
        self._times += 1
        wait_until(lambda: self._server.log.count(f"Sending SUBACK to {self.name}") >= self._times)

    @property
    def got(self) -> list[Got]:
        """All messages so far."""
        lines = self._file.read_text().split("\n")[:-1]
        return [
            Got(one["topic"], one["payload"], one["qos"], bool(one["retain"]), one.get("properties", {}))
            for one in map(json.loads, lines)
        ]

    def of(self, topic: str) -> list[Got]:
        """The messages of a topic."""
        return [one for one in self.got if one.topic == topic]

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait(LIMIT_SECONDS)


@contextmanager
def subscriber(
    server: Mosquitto, *topics: str, options: Sequence[str] = (), name: str = "reader"
) -> Iterator[Subscriber]:
    """Run a subscriber."""
    reader = Subscriber(server, topics or ("#",), *options, name=name)
    try:
        yield reader
    finally:
        reader.end()


def publish(server: Mosquitto, topic: str, payload: str) -> None:
    """Publish as somebody else does."""
    tool = program("mosquitto_pub", package="mosquitto-clients")
    subprocess.run([tool, "-p", str(server.port), "-t", topic, "-m", payload, "-q", "1"], check=True)
