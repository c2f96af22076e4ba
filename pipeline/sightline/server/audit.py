"""The audit log: who changed what, from where, and what came of it."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from sightline.errors import ConfigurationError, OutputError
from sightline.graph.element import Element
from sightline.graph.fields import options_of
from sightline.graph.masked import MASK, masked
from sightline.graph.outputs import output_error
from sightline.graph.tree import PipelineDescription, Step, identify
from sightline.redaction import redact

Difference = Mapping[str, Any]
"""What a change does to one value: its `path`, and what it was `before` and is `after`, without secrets."""

_LONGEST_BYTES = 64_000
_READ_BYTES = 500_000
_TIME = "milliseconds"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks for a change: the name of a token or user, its role, and the address that the request came from."""

    name: str
    role: str
    address: str


class AuditLog:
    """Appends a line of JSON before each change, and one after it, to a file that its owner alone can read.

    The line before a change has `id`, `time`, `pipeline`, `actor`, `role`, `address`, `action`, `target` and `changes`;
    the one after it has the same `id`, and as `result` `done`, `refused` or `failed`, with the `error`. So a change
    that ended the process is there too. No line holds a secret. Several threads and processes may write to one file.
    When it is full it becomes `NAME.1`, which becomes `NAME.2` and so on; the oldest is removed.
    """

    def __init__(self, path: Path, *, pipeline: str = "", most_bytes: int = 10_000_000, kept_files: int = 9) -> None:
        """`pipeline` is the one that is changed, empty for the server in front of several. `most_bytes` is the size of
        a file at most, `kept_files` the number of full ones that stay.
        """
        self.path = path
        self._pipeline = pipeline
        self._most_bytes = most_bytes
        self._kept_files = kept_files
        self._lock = Lock()

    @contextmanager
    def change(self, actor: Actor, action: str, *, target: str, changes: Sequence[Difference] = ()) -> Iterator[None]:
        """Log a change that is made while the block runs, and how that ends. What the block raises is raised.

        Raises OutputError before the block when the log cannot be written: nothing is changed without a line.
        """
        identity, begun = uuid4().hex[:16], time.monotonic()
        asked = {"actor": actor.name, "role": actor.role, "address": actor.address, "action": action, "target": target}
        self._append({"id": identity, "pipeline": self._pipeline, **asked, "changes": changes})
        outcome: dict[str, Any] = {"id": identity, "result": "done"}
        try:
            yield
        except ConfigurationError as error:
            outcome |= {"result": "refused", "error": str(error)}
            raise
        except BaseException as error:
            outcome |= {"result": "failed", "error": f"{type(error).__name__}: {error}"}
            raise
        finally:
            self._append({**outcome, "seconds": round(time.monotonic() - begun, 3)})

    def newest(self, *, limit: int) -> list[dict[str, Any]]:
        """Return the newest changes of the pipeline, the last one first, each with how it ended; what the server in
        front did with the pipeline is among them. Only the end of the file is read, half a megabyte.
        """
        found: dict[str, dict[str, Any]] = {}
        for record in _end_of(self.path):
            identity = str(record.pop("id", ""))
            if "action" in record:
                own = record.pop("pipeline", "") or record.get("target")
                if own == self._pipeline:
                    found[identity] = {"id": identity, **record}
            elif identity in found:
                found[identity] |= {key: value for key, value in record.items() if key != "time"}
        return list(found.values())[: -limit - 1 : -1]

    def _append(self, record: Mapping[str, Any]) -> None:
        """Raises OutputError."""
        now = datetime.now(UTC).isoformat(timespec=_TIME).replace("+00:00", "Z")
        line = _line({"time": now, **record})
        try:
            with self._lock:
                self._write(line)
        except OSError as error:
            raise output_error(self.path, error, doing="write") from error

    def _write(self, line: bytes) -> None:
        descriptor = self._open(len(line))
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _open(self, size: int) -> int:
        """Return a descriptor of the file, locked, in which there is room; it is the one of that name."""
        while True:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(self.path, flags, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                about = os.fstat(descriptor)
                self._check(about)
                os.fchmod(descriptor, 0o600)
                if not about.st_size or about.st_size + size <= self._most_bytes:
                    if self._is_current(about):
                        return descriptor
                elif self._is_current(about):
                    self._rotate()
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _check(self, about: os.stat_result) -> None:
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            raise OutputError(f"cannot write {self.path}: it is no ordinary file of this user; name another one")

    def _is_current(self, about: os.stat_result) -> bool:
        """Whether the file still has its name: another process may have renamed it."""
        try:
            now = self.path.lstat()
        except FileNotFoundError:
            return False
        return (now.st_dev, now.st_ino) == (about.st_dev, about.st_ino)

    def _rotate(self) -> None:
        names = [self.path, *(self.path.with_name(f"{self.path.name}.{n}") for n in range(1, self._kept_files + 1))]
        if not self._kept_files:
            self.path.unlink()
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                newer.replace(older)


def _end_of(path: Path) -> Iterator[dict[str, Any]]:
    """The last records of a file that are whole; none where there is no such file."""
    try:
        with path.open("rb") as file:
            begin = max(0, file.seek(0, os.SEEK_END) - _READ_BYTES)
            file.seek(begin)
            lines = file.read(_READ_BYTES).split(b"\n")
    except OSError:
        return
    for line in lines[1:-1] if begin else lines[:-1]:
        with suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict):
                yield record


def _line(record: Mapping[str, Any]) -> bytes:
    line = json.dumps(_redacted(record), ensure_ascii=True, default=str).encode()
    if len(line) > _LONGEST_BYTES:
        short = {key: value[:1000] if isinstance(value, str) else value for key, value in record.items()}
        left_out = f"left out: {len(line)} bytes"
        line = json.dumps(_redacted({**short, "changes": left_out}), ensure_ascii=True, default=str).encode()
    return line + b"\n"


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(key): _redacted(one) for key, one in value.items()}
    return [_redacted(one) for one in value] if isinstance(value, list | tuple) else value


def differences(before: PipelineDescription, after: PipelineDescription) -> list[Difference]:
    """Return what differs between two descriptions, by the path of the value; steps go by their ids."""
    found: list[Difference] = []
    for prefix, old, new in (
        ("sources", dict(before.sources), dict(after.sources)),
        ("steps", dict(identify(before.steps)), dict(identify(after.steps))),
    ):
        for name in dict.fromkeys((*old, *new)):
            found += _of_part(f"{prefix}.{name}", old.get(name), new.get(name))
    outlines = [_outline(one.steps, iter([name for name, _ in identify(one.steps)])) for one in (before, after)]
    if outlines[0] != outlines[1]:
        found.append({"path": "steps", "before": outlines[0], "after": outlines[1]})
    for option in type(before).model_fields:
        values = getattr(before, option), getattr(after, option)
        if option not in ("sources", "steps") and values[0] != values[1]:
            found.append({"path": option, "before": _shown(values[0]), "after": _shown(values[1])})
    return found


def _of_part(path: str, old: BaseModel | None, new: BaseModel | None) -> Iterator[Difference]:
    if old is None or new is None or type(old) is not type(new):
        if old != new:
            yield {"path": path, **_side("before", old), **_side("after", new)}
        return
    shown = masked(old), masked(new)
    values = [{key: value for key, _, value in options_of(part)} for part in (old, new)]
    for key in dict.fromkeys((*values[0], *values[1])):
        if values[0].get(key) != values[1].get(key):
            yield {"path": f"{path}.{key}", "before": shown[0].get(key), "after": shown[1].get(key)}


def _outline(steps: Sequence[Step], names: Iterator[str]) -> list[Any]:
    """Return the steps by their ids, with branches as they nest."""
    return [
        next(names)
        if isinstance(step, Element)
        else {step.name: {name: _outline(branch, names) for name, branch in step.branches.items()}}
        for step in steps
    ]


def _side(side: str, part: BaseModel | None) -> dict[str, Any]:
    return {} if part is None else {side: {getattr(part, "name", MASK): masked(part)}}


def _shown(value: object) -> Any:
    return masked(value) if isinstance(value, BaseModel) else value
