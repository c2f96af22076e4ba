"""The newest messages of a pipeline."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from sightline.graph import Message
from sightline.redaction import redact

_MOST = 50


@dataclass(slots=True, eq=False)
class _Entry:
    message: Message
    at_seconds: float
    count: int = 1


@dataclass(slots=True, eq=False)
class Journal:
    """Takes messages from any thread."""

    _entries: deque[_Entry] = field(default_factory=lambda: deque(maxlen=_MOST))
    _lock: Lock = field(default_factory=Lock)

    def note(self, message: Message) -> None:
        """Take down a message; the same one again is counted and becomes the newest."""
        with self._lock:
            entry = next((one for one in self._entries if one.message == message), None)
            if entry is None:
                self._entries.append(_Entry(message, time.time()))
                return
            self._entries.remove(entry)
            entry.count += 1
            entry.at_seconds = time.time()
            self._entries.append(entry)

    def to_json(self) -> list[dict[str, Any]]:
        """The messages, newest first."""
        with self._lock:
            entries = list(self._entries)
        return [
            {
                "time": round(one.at_seconds, 3),
                "kind": str(one.message.kind),
                "stream": one.message.stream,
                "element": one.message.element,
                "text": redact(one.message.text),
                "count": one.count,
            }
            for one in reversed(entries)
        ]
