"""The newest lines of the log, for people who look by the API: bounded, and without credentials."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from itertools import count
from threading import Lock

from sightline.api import LogLine, LogLines
from sightline.graph import Message, MessageKind
from sightline.redaction import redact

LOGGERS = ("sightline", "sightline_plugins")
"""The loggers whose records are kept; other libraries log where their users want it."""
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
_MOST_LINES = 2_000
_LONGEST = 4_000
_MESSAGES = "message"
_ERRORS = frozenset({MessageKind.ERROR, MessageKind.STREAM_FAILED, MessageKind.STREAM_AUTH_FAILED})
_WARNINGS = frozenset(
    {
        MessageKind.WARNING,
        MessageKind.STREAM_STALLED,
        MessageKind.STREAM_LOST,
        MessageKind.ELEMENT_STUCK,
        MessageKind.MODEL_TAKEN_BACK,
        MessageKind.CANARY_ROLLED_BACK,
        MessageKind.SINK_DEGRADED,
        MessageKind.DESTINATION_LOST,
        MessageKind.OVERLOADED,
    }
)


class LogRing(logging.Handler):
    """Keeps the newest 2,000 lines that are logged between `start` and `close`, and messages of a run that `note` gets.

    Each is cut at 4,000 characters, so that the ring takes at most some 8 MB.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))
        self._lines: deque[LogLine] = deque(maxlen=_MOST_LINES)
        self._numbers = count(1)
        self._newest = 0
        self._adding = Lock()

    def start(self) -> None:
        """Take what is logged from now on."""
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self)

    def close(self) -> None:
        """Take nothing more; harmless when called again."""
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler. Who has set up no logging at all still gets warnings on standard error."""
        level = next((name for name, number in reversed(LEVELS.items()) if record.levelno >= number), "debug")
        try:
            self._add(level, record.name, self.format(record), at=record.created)
        except Exception:  # noqa: BLE001  as every handler of logging does
            self.handleError(record)
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and not self._is_shown(record):
            last.handle(record)

    def note(self, message: Message) -> None:
        """Take a message of the run as a line, from any thread."""
        level = "error" if message.kind in _ERRORS else "warning" if message.kind in _WARNINGS else "info"
        where = " ".join(filter(None, (message.stream, message.element)))
        self._add(level, _MESSAGES, f"{where}: {message.text}" if where else message.text, at=time.time())

    def newest(self, *, level: str = "debug", after: int = 0, limit: int = 200) -> LogLines:
        """Return lines from a level on that have a number above `after`: the last `limit` of them."""
        with self._adding:
            lines, newest = list(self._lines), self._newest
        lowest = LEVELS[level]
        found = [one for one in lines if one.number > after and LEVELS[one.level] >= lowest]
        return LogLines(lines=found[-limit:], newest=newest, level=_lowest_logged())

    def _add(self, level: str, logger: str, text: str, *, at: float) -> None:
        cleaned = redact(text)
        if len(cleaned) > _LONGEST:
            cleaned = f"{cleaned[:_LONGEST]}…"
        with self._adding:
            self._newest = next(self._numbers)
            line = {"number": self._newest, "time": round(at, 3), "level": level, "logger": logger, "text": cleaned}
            self._lines.append(LogLine.model_validate(line))

    def _is_shown(self, record: logging.LogRecord) -> bool:
        """Whether a handler beside such rings gets the record, too."""
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(not isinstance(one, LogRing) for one in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def _lowest_logged() -> str:
    level = logging.getLogger(LOGGERS[0]).getEffectiveLevel()
    names: Sequence[str] = [name for name, number in LEVELS.items() if number >= level]
    return names[0] if names else "critical"
