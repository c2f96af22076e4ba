"""Keep the state of a run's operators: take up what the last run left, and save what there is every two seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock
from typing import Final

from sightline.errors import OutputError
from sightline.graph import Clock, Message, MessageKind, Outputs
from sightline.graph.state import Saved
from sightline.redaction import redact
from sightline.runtime.state.file import SavedState, StateFile, StateUnusable
from sightline.runtime.threads import Worker

SAVE_SECONDS: Final = 2.0
"""How often state is saved. What a crash costs is at most this, and the time that frames are under way."""
MOST_STATES: Final = 10_000
"""States of steps and streams in a file; of more, those that were saved longest ago are dropped."""
_STOP_SECONDS = 5.0


class StateKeeper(Worker):
    """The state of one run. The file is read when the first operator asks for state (`take`), and a thread writes it
    from then on; a run without such an operator, or without live streams, has neither.

    `saved` returns the present state of the operators; it waits for them. `fresh` says to begin anew. What fails is
    reported once, as a warning: a run is worth more than its state.
    """

    def __init__(
        self,
        path: Path,
        *,
        pipeline: str,
        outputs: Outputs,
        clock: Clock,
        post: Callable[[Message], None],
        saved: Callable[[], list[SavedState]],
        fresh: bool = False,
        save_seconds: float = SAVE_SECONDS,
    ) -> None:
        super().__init__("state")
        self._file = StateFile(path, pipeline=pipeline, outputs=outputs)
        self._clock = clock
        self._post = post
        self._saved = saved
        self._fresh = fresh
        self._save_seconds = save_seconds
        self._lock = Lock()
        self._opening = Lock()
        self._stopping = Event()
        self._is_open = self._is_usable = False
        self._left: dict[tuple[str, str], SavedState] = {}
        """What the last run left, and no operator has taken."""
        self._at_ns: dict[tuple[str, str], int] = {}
        self._lines: dict[tuple[str, str], bytes] = {}
        self._is_changed = False
        self._failed: set[str] = set()
        self._cannot_write = False

    def take(self, step: str, *, element: str, stream: str) -> Saved | None:
        """Return what the last run saved for a step and a stream; once. From any thread."""
        with self._opening:
            if not self._is_open:
                self._is_open = True
                self._open()
        with self._lock:
            left = self._left.pop((step, stream), None)
        return None if left is None or left.element != element else left.state

    def put(self, saved: SavedState) -> None:
        """Keep a state, unless a later one is there; it is written with the next ones. From any thread."""
        try:
            line = saved.line()
        except (TypeError, ValueError, RecursionError) as error:
            self.failed(saved.step, stream=saved.stream, error=error, doing="saved")
            return
        with self._lock:
            at_ns = self._at_ns.get(saved.key)
            if at_ns is not None and (at_ns > saved.at_ns or _state_in(line) == _state_in(self._lines[saved.key])):
                return
            self._at_ns[saved.key], self._lines[saved.key] = saved.at_ns, line
            self._is_changed = True

    def now_ns(self) -> int:
        """Return the time of day."""
        return self._clock.epoch_ns()

    def failed(self, step: str, *, stream: str, error: BaseException, doing: str) -> None:
        """Report that the state of a step cannot be `saved` or `restored`; once for each step."""
        if f"{step} {doing}" in self._failed:
            return
        self._failed.add(f"{step} {doing}")
        what = "it begins anew" if doing == "restored" else "after a restart it begins anew"
        text = f"the state of {step} cannot be {doing}: {redact(f'{type(error).__name__}: {error}')}; {what}"
        self._post(Message(MessageKind.WARNING, text, stream=stream, element=step))

    def work(self) -> None:
        """Save from time to time, and a last time at the end."""
        while not self._stopping.wait(self._save_seconds):
            for one in self._saved():
                self.put(one)
            self._write()
        self._write()

    def stop(self) -> None:
        """Save what the operators have put, and close the file; after all stages have ended."""
        with self._opening:
            self._is_open = True
        self._stopping.set()
        if self.ident is not None:
            self.wait(_STOP_SECONDS)
        self._file.close()

    def _open(self) -> None:
        """Read what the last run left, and begin to save."""
        try:
            if not self._file.claim():
                self._warn(f"{self._file.path} is in use by another process: this one saves no state")
                return
            left = self._read()
        except OutputError as error:
            self._warn(f"no state is saved: {error}")
            return
        self._left = {one.key: one for one in left}
        with self._lock:
            for one in left:
                self._at_ns[one.key], self._lines[one.key] = one.at_ns, one.line()
        if left:
            ago_ns = max(0, self._clock.epoch_ns() - max(one.at_ns for one in left))
            text = f"goes on with the state of {ago_ns / 1e9:.1f} s ago from {self._file.path}"
            self._post(Message(MessageKind.STATE_RESTORED, text))
        self.start()

    def _read(self) -> list[SavedState]:
        """Return the states of the file; nothing when the run is to begin anew. Raises OutputError."""
        try:
            found = self._file.read()
        except StateUnusable as error:
            aside = self._file.set_aside()
            self._warn(f"the state file {self._file.path} is not used: {error}. It is kept as {aside.name}")
            return []
        return [] if self._fresh else found

    def _write(self) -> None:
        with self._lock:
            if not self._is_changed:
                return
            for key in sorted(self._at_ns, key=self._at_ns.__getitem__)[:-MOST_STATES]:
                del self._at_ns[key], self._lines[key]
            lines, self._is_changed = list(self._lines.values()), False
        try:
            self._file.write(lines)
        except OutputError as error:
            self._is_changed = True
            if not self._cannot_write:
                self._warn(f"the state is not saved: {error}; it is tried again")
            self._cannot_write = True
        else:
            self._cannot_write = False

    def _warn(self, text: str) -> None:
        self._post(Message(MessageKind.WARNING, text))


def _state_in(line: bytes) -> bytes:
    """Return the part of a line behind what says whose state it is, and when it was saved."""
    return line.partition(b',"state":')[2]
