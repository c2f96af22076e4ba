"""A node that stands in all lanes of a run: one operator for the streams of several GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock

from sightline.graph import Element, Operator, Pending
from sightline.media import Batch, Stream
from sightline.runtime.node import Node, Probe
from sightline.runtime.tolerance import Tolerance


class SharedNode(Node):
    """Runs one operator for so many lanes, whose threads enter it one at a time.

    Each lane holds it as if it were its own. The end of a stream may come by another lane than its frames did. What is
    left to finish is finished when the last lane has let go, if any came to its end as it should.
    """

    def __init__(
        self,
        element: Element,
        operator: Operator,
        *,
        element_id: str,
        probes: list[Probe],
        lanes: int,
        tolerance: Tolerance | None = None,
    ) -> None:
        super().__init__(element, operator, element_id=element_id, probes=probes, tolerance=tolerance)
        self._holders = lanes
        self._turn = RLock()
        self._has_drained = False

    def share(self) -> None:
        """Another thread of each lane collects the pending results."""
        with self._lock:
            if not self._is_shared:
                self._holders, self._is_shared = self._holders * 2, True

    def process(self, batch: Batch) -> Batch | Pending:
        """What the operator makes of the batch, when its turn comes."""
        with self._turn:
            return super().process(batch)

    def end_stream(self, stream: Stream) -> None:
        """Tell the operator that a stream has ended. Raises OperatorError."""
        with self._turn:
            super().end_stream(stream)

    def drain(self) -> None:
        """All streams of one lane have ended."""
        self._has_drained = True

    def discard(self) -> None:
        """A lane that never came to hold it lets go. Raises OperatorError."""
        for _ in range(2 if self._is_shared else 1):
            self.release()

    def _close(self) -> None:
        try:
            if self._has_drained:
                super().drain()
        finally:
            super()._close()

    def _collect(self, batch: Batch, given: Batch, own: Sequence[int], pending: Pending, given_at_ns: int) -> Batch:
        with self._turn:
            return super()._collect(batch, given, own, pending, given_at_ns)
