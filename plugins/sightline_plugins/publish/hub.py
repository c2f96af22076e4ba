"""All streams of one `publish` step, as its servers see them."""

from __future__ import annotations

from threading import Lock

from sightline_plugins.publish.broadcast import Broadcast


class Hub:
    """The broadcasts that go on, by name; the pipeline's thread adds and removes, the servers look."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._broadcasts: dict[str, Broadcast] = {}

    def add(self, broadcast: Broadcast) -> None:
        """A stream has begun."""
        with self._lock:
            self._broadcasts[broadcast.name] = broadcast

    def remove(self, broadcast: Broadcast) -> None:
        """A stream has ended."""
        with self._lock:
            if self._broadcasts.get(broadcast.name) is broadcast:
                del self._broadcasts[broadcast.name]

    def get(self, name: str) -> Broadcast | None:
        """The stream of that name, if it goes on."""
        with self._lock:
            return self._broadcasts.get(name)

    def names(self) -> list[str]:
        """The streams that go on, in alphabetical order."""
        with self._lock:
            return sorted(self._broadcasts)
