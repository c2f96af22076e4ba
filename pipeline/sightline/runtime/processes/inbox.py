"""What workers send, and where in the main process it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from sightline.errors import OperatorError
from sightline.graph import Message, MessageKind
from sightline.media import Event, Stream
from sightline.runtime.probation import Probation
from sightline.runtime.processes.assignment import ToldError
from sightline.runtime.processes.channel import Letter
from sightline.runtime.processes.main_steps import MainSteps
from sightline.runtime.processes.results import Forward, Results
from sightline.runtime.processes.share import Share
from sightline.runtime.processes.streams import Done, RunStreams
from sightline.runtime.run import BatchListener
from sightline.runtime.scheduling.rule_findings import EventListener
from sightline.runtime.stats.report import Report
from sightline.runtime.stats.snapshot import RunView


class Inbox:
    """Takes the letters of workers, each in the thread of its share: results go to `steps`, counts to `streams`,
    messages to `post`, batches and events to the listeners, errors to `fail`, those of changes to `probation`.
    """

    def __init__(
        self,
        *,
        steps: MainSteps,
        streams: RunStreams,
        post: Callable[[Message], None],
        fail: Callable[[BaseException], None],
        probation: Probation,
        on_events: EventListener | None,
        on_batch: BatchListener | None,
    ) -> None:
        self._steps, self._streams, self._post, self._fail = steps, streams, post, fail
        self._probation = probation
        self._on_events, self._on_batch = on_events, on_batch
        self._posting = Lock()
        self._told: set[tuple[MessageKind, str, str | None]] = set()
        self._takers: Mapping[str, Callable[[Share, Any], None]] = {
            "results": self._take_results,
            "stream ended": self._take_stream_end,
            "stream paused": self._take_stream_pause,
            "stream left": lambda _, stats: self._streams.update([stats]),
            "done": self._take_done,
            "events": self._take_events,
            "view": self._take_view,
            "message": self._take_message,
            "change built": lambda share, _: share.built.set(),
            "change failed": self._take_failed_change,
            "ended": self._take_end,
            "failed": self._take_failure,
        }

    def take(self, share: Share, letter: Letter) -> None:
        """Take a letter; what is for the share alone is left to it."""
        take = self._takers.get(letter.kind)
        if take is not None:
            take(share, letter.content)

    def _take_results(self, _: Share, content: tuple[Forward, Results]) -> None:
        self._steps.process(*content)

    def _take_stream_end(self, _: Share, content: tuple[Forward, str, bool]) -> None:
        to, name, live = content
        self._steps.end_stream(to, Stream(name, live=live))

    def _take_stream_pause(self, _: Share, content: tuple[Forward, str, bool]) -> None:
        to, name, live = content
        self._steps.pause_stream(to, Stream(name, live=live))

    def _take_done(self, share: Share, content: tuple[Mapping[str, Done], Any]) -> None:
        counts, shown = content
        share.progress += self._streams.done(counts)
        if shown is not None and self._on_batch is not None:
            results, arrivals_ns = shown
            self._on_batch(results.batch(), arrivals_ns)

    def _take_events(self, _: Share, content: tuple[Results, Sequence[Event]]) -> None:
        if self._on_events is not None:
            self._on_events(content[0].batch(), content[1])

    def _take_view(self, share: Share, content: tuple[RunView, int, tuple[Path, ...]]) -> None:
        share.view, cpu_ns, files = content
        share.files = tuple(dict.fromkeys((*share.files, *files)))
        share.note_cpu(cpu_ns)
        self._streams.update(share.view.streams)

    def _take_message(self, _: Share, message: Message) -> None:
        """Pass on a message of a worker; what several report alike, of no stream, is passed on once."""
        if message.stream is None:
            key = (message.kind, message.text, message.element)
            with self._posting:
                if key in self._told:
                    return
                self._told.add(key)
        self._post(message)

    def _take_failed_change(self, _: Share, told: ToldError) -> None:
        error = told.error()
        if isinstance(error, OperatorError):
            self._probation.report(error)

    def _take_end(self, share: Share, content: tuple[RunView, Report | None, ToldError | None]) -> None:
        share.view, share.report, told = content
        if share.report is not None:
            self._streams.update(share.report.streams)
        if told is not None:
            self._fail(told.error())

    def _take_failure(self, _: Share, told: ToldError) -> None:
        self._fail(told.error())
