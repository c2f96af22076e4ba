"""The functions of an application that are called with what happens in a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from sightline.graph import Message
from sightline.media import Batch, Event
from sightline.runtime.call_scope import CallScope
from sightline.runtime.run import BatchListener
from sightline.runtime.scheduling.rule_findings import EventListener

_LOG = logging.getLogger(__name__)


class Listeners:
    """Calls them from the threads of the run. What one raises is logged with its traceback, and stops nothing: this is
    the boundary to foreign code.
    """

    def __init__(self, scope: CallScope) -> None:
        self._scope = scope
        self.of_messages: list[Callable[[Message], None]] = []
        self.of_events: list[EventListener] = []
        self.of_batches: list[BatchListener] = []

    @property
    def on_events(self) -> EventListener | None:
        """What to call with events; None when nobody listens."""
        return self._report_events if self.of_events else None

    @property
    def on_batch(self) -> BatchListener | None:
        """What to call with batches; None when nobody listens."""
        return self._report_batch if self.of_batches else None

    def post(self, message: Message) -> None:
        """Call the listeners of messages."""
        for listener in self.of_messages:
            try:
                with self._scope.entered():
                    listener(message)
            except Exception:  # noqa: BLE001  see above
                _LOG.exception("a listener failed on the message %r", message.text)

    def _report_events(self, batch: Batch, events: Sequence[Event]) -> None:
        for listener in self.of_events:
            try:
                with self._scope.entered():
                    listener(batch, events)
            except Exception:  # noqa: BLE001  see above
                _LOG.exception("a listener failed on %d events of %s", len(events), events[0].step)

    def _report_batch(self, batch: Batch, arrivals_ns: Sequence[int]) -> None:
        for listener in self.of_batches:
            try:
                with self._scope.entered():
                    listener(batch, arrivals_ns)
            except Exception:  # noqa: BLE001  see above
                _LOG.exception("a listener failed on a batch of %d frames", len(batch))
