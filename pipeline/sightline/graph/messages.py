"""Messages: what the runtime and operators report to the application, out of band."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MessageKind(StrEnum):
    """What a message says."""

    STARTED = "started"
    STREAM_STARTED = "stream_started"
    STREAM_LOST = "stream_lost"
    STREAM_BACK = "stream_back"
    STREAM_ENDED = "stream_ended"
    STREAM_FAILED = "stream_failed"
    WARNING = "warning"
    ERROR = "error"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Message:
    """One report. `text` is a sentence for a person, free of credentials; `stream` and `element` say where."""

    kind: MessageKind
    text: str
    stream: str | None = None
    element: str | None = None
