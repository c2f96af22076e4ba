"""The steps that exist once for all workers: their operators run in the main process, on what workers send."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import RLock

from sightline.errors import OperatorError, SightlineError
from sightline.graph import Element, Site
from sightline.media import Stream
from sightline.runtime.processes.results import Results
from sightline.runtime.scheduling.element_totals import ElementTotals
from sightline.runtime.scheduling.factory import OperatorFactory
from sightline.runtime.scheduling.node import Node, Probe, StreamFailed


class MainSteps:
    """Runs the operators of steps that use results alone, one call at a time for each; from any thread.

    Frames of a stream come in their order. After a worker was lost, its streams are read again a few frames back, so
    that a step may be sent frames that it had: it is not given them again. `on_error` gets the first error of each
    operator that may not be skipped; it gets nothing after that.
    """

    def __init__(
        self,
        elements: Mapping[str, Element],
        *,
        site: Site,
        on_error: Callable[[BaseException], None],
        on_hopeless: StreamFailed,
    ) -> None:
        """Build the operators. Raises SightlineError, with nothing left open."""
        self._on_error = on_error
        probes: dict[str, list[Probe]] = {}
        factory = OperatorFactory(probes=probes, on_error=on_error, on_hopeless=on_hopeless)
        (built,) = factory.build(elements.items(), sites=[site])
        self._nodes = {name: one.node for name, one in built.items()}
        self._locks = {name: RLock() for name in built}
        self._newest: dict[tuple[str, str], int] = {}
        self._failed: set[str] = set()
        self.elements = ElementTotals(self._by_id, on_error=on_error)
        """What the operators have counted."""

    def process(self, element_id: str, results: Results) -> None:
        """Give a batch to a step."""
        batch = results.batch()
        with self._locks[element_id]:
            newest = self._newest
            rows = [
                row
                for row, frame in enumerate(batch.frames)
                if frame.index > newest.get((element_id, frame.stream.name), -1)
            ]
            if not rows:
                return
            for row in rows:
                frame = batch.frames[row]
                newest[element_id, frame.stream.name] = frame.index
            given = batch if len(rows) == len(batch) else batch.select_frames(rows)
            self._call(element_id, lambda node: node.process(given))

    def pause_stream(self, element_id: str, stream: Stream) -> None:
        """Pause a stream in a step."""
        with self._locks[element_id]:
            self._call(element_id, lambda node: node.pause_stream(stream))

    def end_stream(self, element_id: str, stream: Stream) -> None:
        """End a stream in a step."""
        with self._locks[element_id]:
            self._call(element_id, lambda node: node.end_stream(stream))

    def close(self, *, drained: bool) -> None:
        """End all streams, unless the run was cut off, and close everything; each step even if another fails."""
        for name, node in self._nodes.items():
            with self._locks[name]:
                if drained:
                    self._call(name, lambda node: node.drain())
                try:
                    node.release()
                except OperatorError as error:
                    self._on_error(error)

    def _call(self, element_id: str, work: Callable[[Node], object]) -> None:
        if element_id in self._failed:
            return
        try:
            work(self._nodes[element_id])
        except SightlineError as error:
            self._failed.add(element_id)
            self._on_error(error)

    def _by_id(self) -> Mapping[str, list[Node]]:
        return {name: [node] for name, node in self._nodes.items()}
