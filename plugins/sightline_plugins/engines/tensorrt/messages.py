"""What TensorRT says: it logs its reasons and returns nothing, so they are collected where it is called."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Log = Callable[[str, str], None]
"""Takes a message's severity (`error`, `warning`, `info`, `verbose`) and its text."""
_ERRORS = ("internal_error", "error")
_MOST_REASONS = 3
_LONGEST_REASON = 240
_SIGNATURE = re.compile(r"^(\[\S+::\d+\]\s*|\(\w+\):\s*|[\w:]+:\s*(?=Error Code)|\w+\.cpp:\d+:\s*)")
_CODE = re.compile(r"^Error Code \d+: (?P<kind>[^(]*?)\s*\((?P<text>.*)\)\s*$", re.DOTALL)
_PLACE = re.compile(r"\.?\s*\bIn \w+ at \S+:\d+")
_IDLE = re.compile(r"^(--- (Begin|End) node ---|While parsing node number)")


@dataclass(slots=True, eq=False)
class Heard:
    """What was said during one call, of the thread that made it or of the library's own."""

    log: Log | None
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def take(self, severity: str, text: str) -> None:
        """Keep a message, and pass it on."""
        if severity in _ERRORS:
            self.errors.append(text)
        elif severity == "warning":
            self.warnings.append(text)
        if self.log is not None:
            self.log("error" if severity in _ERRORS else severity, text)

    @property
    def reason(self) -> str:
        """The first errors in one line, without places in the library's sources; warnings where there are none."""
        said = [gist(text) for text in self.errors or self.warnings if not _IDLE.match(_bare(text))]
        kept = list(dict.fromkeys(text for text in said if text))[:_MOST_REASONS]
        return "; ".join(kept) or "it gives no reason"


class Messages:
    """The one logger of a library: TensorRT keeps the first that it is given for the whole process. Any thread."""

    def __init__(self, module: Any) -> None:
        self._lock = threading.Lock()
        self._listening: list[tuple[int, Heard]] = []
        self.logger = _logger(module, self._hear)

    @contextmanager
    def listening(self, log: Log | None = None) -> Iterator[Heard]:
        """What is said while the block runs. The library's own threads are heard by everybody who listens."""
        entry = threading.get_ident(), Heard(log)
        with self._lock:
            self._listening.append(entry)
        try:
            yield entry[1]
        finally:
            with self._lock:
                self._listening.remove(entry)

    def _hear(self, severity: str, text: str) -> None:
        with self._lock:
            own = [heard for thread, heard in self._listening if thread == threading.get_ident()]
            listening = own[-1:] or [heard for _, heard in self._listening]
        for heard in listening:
            heard.take(severity, text)


def gist(text: str) -> str:
    """A message without function, file and line of the library's sources, cut where it is very long."""
    bare = _bare(text)
    coded = _CODE.match(bare)
    if coded is not None:
        kind, inner = coded["kind"], _PLACE.sub("", coded["text"]).strip()
        if inner.startswith("(") and inner.endswith(")"):
            inner = inner[1:-1]
        bare = inner if kind in ("", "Internal Error", "API Usage Error") else f"{kind}: {inner}"
    told = " ".join(_PLACE.sub("", bare).split()).removesuffix(".")
    return told if len(told) <= _LONGEST_REASON else f"{told[:_LONGEST_REASON].rstrip()}..."


def _bare(text: str) -> str:
    bare, before = text.strip(), ""
    while bare != before:
        before, bare = bare, _SIGNATURE.sub("", bare, count=1)
    return bare


def _logger(module: Any, hear: Log) -> Any:
    """An object of the library's own class of loggers; it is made here because the class is known only now."""

    def begin(self: Any) -> None:
        module.ILogger.__init__(self)

    def log(self: Any, severity: Any, text: str) -> None:
        del self
        hear(severity.name.lower(), text)

    return type("Logger", (module.ILogger,), {"__init__": begin, "log": log})()
