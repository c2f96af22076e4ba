"""Turns: the stays of streams that come under the same name, one after another."""

from __future__ import annotations

from sightline.graph import SourceElement
from sightline.runtime.lane import Berth
from sightline.runtime.statistics import StreamStatistics
from sightline.runtime.supervise import Limits, SourceThread

_GLANCE_SECONDS = 0.1


class Turn(SourceThread):
    """One stay of a stream. What came under the same name before it (`before`) comes to its end first, even when its
    input answers late, and is then continued.
    """

    def __init__(
        self,
        source: SourceElement,
        *,
        berth: Berth,
        statistics: StreamStatistics,
        limits: Limits,
        before: Turn | None,
    ) -> None:
        super().__init__(source, berth=berth, statistics=statistics, limits=limits)
        self._before = before
        self._cpu_ns_before = 0

    @property
    def is_settled(self) -> bool:
        """Whether it, and all that came before it, have ended."""
        return self.ident is not None and not self.running and (self._before is None or self._before.is_settled)

    @property
    def all_cpu_ns(self) -> int:
        """What it and all that came before it took."""
        return self._cpu_ns_before + self.cpu_ns

    def work(self) -> None:
        """Read the stream to its end, once what came before has ended."""
        before = self._before
        while before is not None and not before.is_settled:
            if self._stopping.wait(_GLANCE_SECONDS):
                self._end()
                return
        self._take_over()
        super().work()

    def _take_over(self) -> None:
        before, self._before = self._before, None
        while before is not None and before._before is not None:  # noqa: SLF001  those between never came to read
            before = before._before  # noqa: SLF001
        if before is not None:
            self._continuation, self._cpu_ns_before = before._continuation, before.all_cpu_ns  # noqa: SLF001
            self.statistics.ended_ns = self.statistics.error = self.statistics.cause = None
