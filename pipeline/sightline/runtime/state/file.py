"""The state file of a run: what its operators keep over a restart. Written as a whole, or not at all.

A line that says what the file is, with the SHA-256 of the rest, and then a line for each step and stream. The new file
is written aside, flushed to the disk and renamed, so that after a crash, a full disk or a power cut the one before is
there. What is read was perhaps written by somebody else: it is checked before anything of it is used.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from pydantic import BaseModel, ConfigDict, ValidationError

from sightline.errors import OutputError
from sightline.graph.outputs import Outputs, output_error
from sightline.graph.ownership import STATE_BEGINNING
from sightline.graph.state import Saved

FORMAT: Final = 1
"""The version of the format. Another one is refused."""
LARGEST_BYTES: Final = 64_000_000
"""A state is a few kilobytes a stream; what is larger is neither written nor read."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """The state of a step (`lines-1`, an element `lines`) for a stream at a time of day (nanoseconds since the
    epoch).
    """

    step: str
    element: str
    stream: str
    at_ns: int
    state: Saved

    @property
    def key(self) -> tuple[str, str]:
        """Step and stream, of which a file has one state."""
        return self.step, self.stream

    def line(self) -> bytes:
        """Return it as a line of the file. Raises TypeError, ValueError or RecursionError when the state is not what
        JSON holds.
        """
        known = {"step": self.step, "element": self.element, "stream": self.stream, "at_ns": self.at_ns}
        return msgspec.json.encode({**known, "state": self.state}) + b"\n"


class StateUnusable(Exception):
    """A file that is not taken up; the text says why."""


class _Checked(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class _Head(_Checked):
    sightline_state: int
    pipeline: str
    entries: int
    sha256: str


class _Line(_Checked):
    step: str
    element: str
    stream: str
    at_ns: int
    state: dict[str, Any]


class StateFile:
    """One file, which one process at a time uses. For one thread at a time."""

    def __init__(self, path: Path, *, pipeline: str, outputs: Outputs) -> None:
        self.path = path
        self._pipeline = pipeline
        self._outputs = outputs
        self._claim: IO[bytes] | None = None

    def claim(self) -> bool:
        """Keep other processes from using it until `close`; False when another one does. Raises OutputError."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output_error(self.path, error, doing="write") from error
        self._outputs.check_replaceable(self.path)
        self._claim = self._outputs.lock(self.path)
        return self._claim is not None

    def read(self) -> list[SavedState]:
        """Return what it holds; nothing when it is not there. Raises StateUnusable."""
        content = self._content()
        if content is None:
            return []
        first, _, rest = content.partition(b"\n")
        head = _head(first)
        if head.pipeline != self._pipeline:
            raise StateUnusable(f"it is of another pipeline, {head.pipeline[:64]!r}")
        if hashlib.sha256(rest).hexdigest() != head.sha256:
            raise StateUnusable("it is damaged")
        try:
            lines = [_Line.model_validate_json(line) for line in rest.splitlines()]
        except ValidationError as error:
            raise StateUnusable("it is damaged") from error
        if len(lines) != head.entries:
            raise StateUnusable("it is damaged")
        return [SavedState(line.step, line.element, line.stream, line.at_ns, line.state) for line in lines]

    def set_aside(self) -> Path:
        """Give a file that cannot be used another name, and return that. Raises OutputError."""
        aside = self.path.with_name(f"{self.path.name}.refused")
        try:
            self.path.replace(aside)
        except OSError as error:
            raise output_error(self.path, error, doing="rename") from error
        return aside

    def write(self, lines: Sequence[bytes]) -> None:
        """Replace what it holds. Raises OutputError, and the file is then as it was."""
        rest = b"".join(lines)
        head = _Head(
            sightline_state=FORMAT,
            pipeline=self._pipeline,
            entries=len(lines),
            sha256=hashlib.sha256(rest).hexdigest(),
        )
        content = head.model_dump_json().encode() + b"\n" + rest
        if len(content) > LARGEST_BYTES:
            raise OutputError(f"cannot write {self.path}: it would have {len(content)} bytes, {LARGEST_BYTES} at most")
        part = self.path.with_name(f"{self.path.name}.part")
        file = self._outputs.open_lines(part)
        try:
            file.write(content)
            file.synchronize()
            file.close()
            self._outputs.rename(part, to=self.path)
        except OutputError:
            with contextlib.suppress(OutputError):
                file.close()
                self._outputs.remove(part)
            raise

    def close(self) -> None:
        """Let other processes use it; harmless when called again."""
        if self._claim is not None:
            self._claim.close()
            self._claim = None

    def _content(self) -> bytes | None:
        """Return the bytes of the file; None when it is not there, or empty. Raises StateUnusable."""
        try:
            return self._outputs.read_back(self.path, most_bytes=LARGEST_BYTES)
        except OutputError as error:
            raise StateUnusable(error.reason) from error


def _head(line: bytes) -> _Head:
    """Return what the first line says. Raises StateUnusable."""
    if not line.startswith(STATE_BEGINNING):
        raise StateUnusable("it is no state of a pipeline")
    try:
        version = _Version.model_validate_json(line).sightline_state
        if version != FORMAT:
            raise StateUnusable(f"it was written by another version of Sightline (format {version})")
        return _Head.model_validate_json(line)
    except ValidationError as error:
        raise StateUnusable("it is damaged") from error


class _Version(BaseModel):
    """What every version says of itself."""

    sightline_state: int
