"""Show the progress of a run on a terminal or as log lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from sightline.cli.terminal import raw, visible
from sightline.graph.messages import Message, MessageKind, StreamState
from sightline.redaction import redact

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

    from sightline.runtime.stats.counters import DeliveryStats
    from sightline.runtime.stats.snapshot import StreamStatus

WINDOW_SECONDS = 10.0

_Key = tuple[MessageKind, str, str | None, str | None]


@dataclass(slots=True)
class _Said:
    message: Message
    at_seconds: float
    repeats: int = 0


@dataclass(slots=True)
class Folding:
    """Decides what is said now: messages, each with how often it came since it was said last (0: it is said the first
    time). The order is that in which they came last, so that the last line is how things are.

    A message that was said less than ten seconds ago is counted instead: a stream that comes and goes every second
    takes two lines in ten seconds, and not ten.
    """

    _said: dict[_Key, _Said] = field(default_factory=dict)

    def take(self, message: Message, *, now_seconds: float) -> list[tuple[Message, int]]:
        """Return what to show because of a message."""
        key = (message.kind, message.text, message.stream, message.element)
        before = self._said.pop(key, None)
        if before is not None and now_seconds - before.at_seconds < WINDOW_SECONDS:
            before.repeats += 1
            self._said[key] = before
            return []
        times = before.repeats + 1 if before is not None and before.repeats else 0
        told = [*self._counted(list(self._said.values()), now_seconds), (message, times)]
        self._said[key] = _Said(message, now_seconds)
        return told

    def due(self, *, now_seconds: float) -> list[tuple[Message, int]]:
        """Return what to show because time has passed."""
        old = {key: one for key, one in self._said.items() if now_seconds - one.at_seconds >= WINDOW_SECONDS}
        told = list(self._counted(list(old.values()), now_seconds))
        for key, one in old.items():
            if one.at_seconds < now_seconds:
                del self._said[key]
        return told

    def rest(self) -> list[tuple[Message, int]]:
        """Return what to show because nothing more will come."""
        return list(self._counted(list(self._said.values()), 0.0))

    def _counted(self, said: list[_Said], now_seconds: float) -> Iterator[tuple[Message, int]]:
        for one in said:
            if one.repeats:
                yield one.message, one.repeats
                one.at_seconds, one.repeats = now_seconds, 0


_LINES_EVERY_SECONDS, _LINES_AT_LEAST_EVERY_SECONDS = 5.0, 600.0
_LONGEST_WAIT_SECONDS = 1.0
_TABLE_EVERY_SECONDS = 0.25
_TROUBLE = frozenset(
    {
        MessageKind.WARNING,
        MessageKind.ERROR,
        MessageKind.STREAM_STALLED,
        MessageKind.STREAM_LOST,
        MessageKind.STREAM_AUTH_FAILED,
        MessageKind.STREAM_FAILED,
        MessageKind.STREAM_BACK,
        MessageKind.ELEMENT_STUCK,
        MessageKind.MODEL_TAKEN_BACK,
        MessageKind.CANARY_ROLLED_BACK,
        MessageKind.SINK_DEGRADED,
        MessageKind.SINK_RECOVERED,
        MessageKind.DESTINATION_LOST,
        MessageKind.DESTINATION_BACK,
        MessageKind.OVERLOADED,
        MessageKind.KEEPS_UP,
    }
)

Statuses = Callable[[], "Sequence[StreamStatus]"]
Deliveries = Callable[[], "Sequence[DeliveryStats]"]


class _Screen(Protocol):
    """Where progress goes."""

    every_seconds: float

    def open(self) -> None: ...

    def show(self, statuses: Sequence[StreamStatus], deliveries: Sequence[DeliveryStats]) -> None: ...

    def say(self, text: str) -> None: ...

    def close(self, statuses: Sequence[StreamStatus], deliveries: Sequence[DeliveryStats]) -> None: ...


class Progress:
    """Shows how a run is doing while its block is open; `tell` takes messages from any thread.

    With `quiet` only trouble is shown. A message that repeats within ten seconds is counted instead of shown.
    """

    def __init__(self, statuses: Statuses, *, deliveries: Deliveries = tuple, quiet: bool = False) -> None:
        self._statuses = statuses
        self._deliveries = deliveries
        self._quiet = quiet
        self._screen: _Screen = _Terminal() if sys.stderr.isatty() and not quiet else _Lines()
        self._over = Event()
        self._thread = Thread(target=self._watch, name="progress", daemon=True)
        self._lock = Lock()
        self._folding = Folding()

    def tell(self, message: Message) -> None:
        """Show a message, unless it was shown a moment ago."""
        if message.kind is MessageKind.ERROR or (self._quiet and message.kind not in _TROUBLE):
            return
        with self._lock:
            self._say(self._folding.take(message, now_seconds=monotonic()))

    def say(self, text: str) -> None:
        """Say something of the command itself."""
        self._screen.say(text)

    def __enter__(self) -> Progress:
        if not self._quiet:
            self._screen.open()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if not self._quiet:
            self._screen.close(self._statuses(), self._deliveries())
        with self._lock:
            self._say(self._folding.rest())

    def _watch(self) -> None:
        shown = monotonic()
        while not self._over.wait(min(self._screen.every_seconds, _LONGEST_WAIT_SECONDS)):
            if not self._quiet and monotonic() - shown >= self._screen.every_seconds:
                self._screen.show(self._statuses(), self._deliveries())
                shown = monotonic()
            with self._lock:
                self._say(self._folding.due(now_seconds=monotonic()))

    def _say(self, messages: Iterable[tuple[Message, int]]) -> None:
        for message, repeats in messages:
            times = "" if not repeats else " (once more)" if repeats == 1 else f" ({repeats} times more)"
            self._screen.say(f"{_sentence(message)}{times}")


class _Lines:
    """Plain lines, one a stream: after five seconds, and then more and more rarely, so that the log of a long run is
    about what happened.
    """

    def __init__(self) -> None:
        self.every_seconds = _LINES_EVERY_SECONDS

    def open(self) -> None:
        """Nothing to prepare."""

    def show(self, statuses: Sequence[StreamStatus], deliveries: Sequence[DeliveryStats]) -> None:
        self.every_seconds = min(2 * self.every_seconds, _LINES_AT_LEAST_EVERY_SECONDS)
        for status in statuses:
            dropped = f", {status.dropped} dropped" if status.dropped else ""
            self.say(
                f"{status.name}: {state_text(status)}, {position_text(status)}, {status.fps:.1f} frames/s, "
                f"{status.objects} objects{dropped}"
            )
        for one in deliveries:
            self.say(f"{one.destination}: {delivery_text(one)}")

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201

    def close(self, statuses: Sequence[StreamStatus], deliveries: Sequence[DeliveryStats]) -> None:
        """Nothing to put back; the summary says how it ended."""


class _Terminal:
    """A table that is drawn anew in its place; messages scroll above it."""

    every_seconds = _TABLE_EVERY_SECONDS

    def __init__(self) -> None:
        self._live: Live | None = None

    def open(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(file=raw(sys.stderr)), auto_refresh=False)
        self._live.start()

    def show(self, statuses: Sequence[StreamStatus], deliveries: Sequence[DeliveryStats]) -> None:
        if self._live is not None:
            self._live.update(_table(statuses, deliveries), refresh=True)

    def say(self, text: str) -> None:
        if self._live is None:
            print(text, file=sys.stderr, flush=True)  # noqa: T201
        else:
            self._live.console.print(visible(text), markup=False, highlight=False)

    def close(self, statuses: Sequence[StreamStatus], deliveries: Sequence[DeliveryStats]) -> None:
        if self._live is not None:
            self.show(statuses, deliveries)
            self._live.stop()
            self._live = None


_COLORS = {
    StreamState.WAITING: "dim",
    StreamState.CONNECTING: "cyan",
    StreamState.LIVE: "green",
    StreamState.PAUSED: "blue",
    StreamState.STALLED: "yellow",
    StreamState.LOST: "yellow",
    StreamState.AUTH_FAILED: "red",
    StreamState.ENDED: "dim",
    StreamState.FAILED: "red",
}


def _table(statuses: Sequence[StreamStatus], deliveries: Sequence[DeliveryStats]) -> Group:
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("stream", "state"):
        table.add_column(title)
    for title in ("position", "frames/s", "objects", "dropped"):
        table.add_column(title, justify="right")
    for status in statuses:
        state = Text(state_text(status), style=_COLORS[status.state])
        numbers = (f"{status.fps:.1f}", str(status.objects), str(status.dropped))
        table.add_row(Text(visible(status.name)), state, position_text(status), *numbers)
    return Group(table, *(Text(visible(f"{one.destination}: {delivery_text(one)}")) for one in deliveries))


def delivery_text(stats: DeliveryStats) -> str:
    """How a destination is: `connected, 412 records delivered, 3 waiting`."""
    lost = sum(stats.dropped.values())
    parts = (
        str(stats.state),
        f"{stats.delivered} records delivered",
        f"{stats.depth} waiting",
        f"{stats.refused} refused" if stats.refused else "",
        f"{lost} dropped" if lost else "",
    )
    return ", ".join(part for part in parts if part)


def state_text(status: StreamStatus) -> str:
    """The state of a stream; `finishing` when its source has ended and frames of it are still under way."""
    is_under_way = status.state is StreamState.ENDED and status.processed + status.dropped < status.frames
    return "finishing" if is_under_way else str(status.state)


def position_text(status: StreamStatus) -> str:
    """How far a stream is: `412/480 frames (86 %)`, or `1:07` where the number of frames is not known; of one that has
    ended, how many frames there were in the end.
    """
    if status.state is StreamState.ENDED and state_text(status) == str(status.state):
        return f"{status.processed} frames"
    if status.total:
        share = min(100, round(100 * status.processed / status.total))
        return f"{status.processed}/{status.total} frames ({share} %)"
    return clock_text(status.position_ns)


def clock_text(position_ns: int) -> str:
    """A position as `m:ss`, or `h:mm:ss` from one hour on."""
    minutes, seconds = divmod(max(position_ns, 0) // 1_000_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


_KINDS = {MessageKind.WARNING: "warning: ", MessageKind.STREAM_FAILED: "error: "}


def _sentence(message: Message) -> str:
    named = message.stream is not None and f"stream {message.stream!r}" in message.text
    parts = (None if named else message.stream, message.element if message.element != message.stream else None)
    where = " ".join(part for part in parts if part)
    kind = _KINDS.get(message.kind, "")
    return redact(f"{kind}{where}: {message.text}" if where else f"{kind}{message.text}")
