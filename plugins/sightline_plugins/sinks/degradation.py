"""What a sink says when it cannot write: once that it cannot, once that it can again."""

from __future__ import annotations

from sightline.errors import OutputError
from sightline.graph import Message, MessageKind, Site

_RETRY_NS = 2_000_000_000


class Degradation:
    """Whether a sink is degraded: what it should write is lost, nothing else stops, and it tries again.

    Used by one thread.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._retry_at_ns = 0
        self.is_degraded = False

    @property
    def is_waiting(self) -> bool:
        """Whether it failed within the last two seconds, so that nothing is tried yet."""
        return self.is_degraded and self._site.clock.monotonic_ns() < self._retry_at_ns

    def failed(self, error: OutputError, *, stream: str, at_once: bool = False) -> None:
        """Writing failed; it is tried again in two seconds, or at once where room was made."""
        self._retry_at_ns = 0 if at_once else self._site.clock.monotonic_ns() + _RETRY_NS
        if not self.is_degraded:
            self.is_degraded = True
            self._post(MessageKind.SINK_DEGRADED, f"{error}; it is tried again every 2 s", stream)

    def succeeded(self, *, stream: str) -> None:
        """Something is written, and whole."""
        if self.is_degraded:
            self.is_degraded = False
            self._post(MessageKind.SINK_RECOVERED, "writing goes on", stream)

    def _post(self, kind: MessageKind, text: str, stream: str) -> None:
        self._site.post(Message(kind, text, stream=stream, element=self._site.element_id))
