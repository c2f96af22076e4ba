"""The steps that exist once for all workers: their operators run in the main process, on what workers send."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import RLock

from sightline.errors import OperatorError, SightlineError
from sightline.graph import Element, Site
from sightline.media import Stream
from sightline.runtime.processes.results import Forward, Results
from sightline.runtime.scheduling.element_totals import ElementTotals
from sightline.runtime.scheduling.factory import BuiltOperator, OperatorFactory
from sightline.runtime.scheduling.node import Node, Probe, StreamFailed


@dataclass(frozen=True, slots=True)
class MainChange:
    """A change that has begun: steps that were `kept`, those whose options have `changed`, and what was `built`."""

    kept: tuple[str, ...]
    changed: Mapping[str, BuiltOperator]
    former: Mapping[str, Element]
    """The elements that the changed ones were."""
    built: Mapping[str, BuiltOperator]
    forwarded: Mapping[str, int]
    """The version of each step after the change."""


class MainSteps:
    """Runs the operators of steps that use results alone, one call at a time for each; from any thread.

    Frames of a stream come in their order. After a worker was lost, its streams are read again a few frames back, so
    that a step may be sent frames that it had: it is not given them again. `on_error` gets the first error of each
    operator that may not be skipped; it gets nothing after that.

    A step that is built anew has another version. While a change goes through the workers, some of them send results to
    the former version, and others to the next one.
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
        self._site = site
        probes: dict[str, list[Probe]] = {}
        self._factory = OperatorFactory(probes=probes, on_error=on_error, on_hopeless=on_hopeless)
        self._present: dict[str, BuiltOperator] = {}
        self._versions: dict[str, int] = {}
        self._nodes: dict[Forward, Node] = {}
        self._locks: dict[Forward, RLock] = {}
        self._newest: dict[Forward, dict[str, int]] = {}
        self._failed: set[Forward] = set()
        self.elements = ElementTotals(self._by_id, on_error=on_error)
        """What the operators have counted."""
        self.finish(self.begin(elements, prove_ns=0))

    @property
    def forwarded(self) -> Mapping[str, int]:
        """The present steps by their ids, and the version of each."""
        return {name: self._versions[name] for name in self._present}

    def process(self, to: Forward, results: Results) -> None:
        """Give a batch to a step."""
        batch = results.batch()
        with self._locks[to]:
            newest = self._newest[to]
            rows = [row for row, frame in enumerate(batch.frames) if frame.index > newest.get(frame.stream.name, -1)]
            if not rows:
                return
            for row in rows:
                frame = batch.frames[row]
                newest[frame.stream.name] = frame.index
            given = batch if len(rows) == len(batch) else batch.select_frames(rows)
            self._call(to, lambda node: node.process(given))

    def pause_stream(self, to: Forward, stream: Stream) -> None:
        """Pause a stream in a step."""
        with self._locks[to]:
            self._call(to, lambda node: node.pause_stream(stream))

    def end_stream(self, to: Forward, stream: Stream) -> None:
        """End a stream in a step."""
        with self._locks[to]:
            self._call(to, lambda node: node.end_stream(stream))

    def differs(self, elements: Mapping[str, Element]) -> bool:
        """Whether these steps differ from the present ones, or files that they read have changed."""
        return elements.keys() != self._present.keys() or not all(self.runs(*one) for one in elements.items())

    def runs(self, element_id: str, element: Element) -> bool:
        """Whether building this step now would give the operator that there is."""
        present = self._present.get(element_id)
        return present is not None and present.is_current(element)

    def begin(self, elements: Mapping[str, Element], *, prove_ns: int) -> MainChange:
        """Build what these steps need, and let others take over their options. From now on results of both versions
        are taken. `finish` or `withdraw` ends it. Raises SightlineError, and all is as before.
        """
        kept = [name for name, element in elements.items() if self.runs(name, element)]
        changing = {
            name: element
            for name, element in elements.items()
            if name not in kept and name in self._present and self._present[name].can_become(element)
        }
        new = [(name, one) for name, one in elements.items() if name not in kept and name not in changing]
        (built,) = self._factory.build(new, sites=[self._site])
        former = {name: self._present[name].node.element for name in changing}
        try:
            self._change_options(changing, prove_ns=prove_ns)
        except BaseException:
            self._factory.discard([built])
            raise
        for name, one in built.items():
            self._versions[name] = self._versions.get(name, 0) + 1
            to = name, self._versions[name]
            self._locks[to], self._newest[to] = RLock(), {}
            self._nodes[to] = one.node
        return MainChange(
            kept=tuple(kept),
            changed={name: self._present[name].changed_into(element) for name, element in changing.items()},
            former=former,
            built=built,
            forwarded={name: self._versions[name] for name in elements},
        )

    def finish(self, change: MainChange) -> None:
        """End a change that has gone through all workers: what is gone or was replaced is drained and closed."""
        former = self._present
        self._present = {
            name: change.built.get(name) or change.changed.get(name) or former[name] for name in change.forwarded
        }
        replaced = {name: one for name, one in former.items() if name not in change.forwarded or name in change.built}
        for name in replaced:
            new = change.forwarded.get(name)
            for version in [one for step, one in self._nodes if step == name and one != new]:
                if new is not None:
                    self._go_on((name, version), (name, new))
                self._close((name, version), drained=True)
                self._forget((name, version))
        if replaced:
            built = {name: [one.node] for name, one in change.built.items()}
            self.elements.retire({name: [one.node] for name, one in replaced.items()}, new=built)

    def withdraw(self, change: MainChange) -> None:
        """Take a change back that has not gone through: no worker sends to the versions that were built."""
        for name in change.built:
            self._forget((name, change.forwarded[name]))
        self._factory.discard([change.built])
        try:
            self._change_options(change.former, prove_ns=0)
        except SightlineError as error:
            self._on_error(error)

    def close(self, *, drained: bool) -> None:
        """End all streams, unless the run was cut off, and close everything; each step even if another fails."""
        for to in list(self._nodes):
            self._close(to, drained=drained)

    def _close(self, to: Forward, *, drained: bool) -> None:
        with self._locks[to]:
            if drained:
                self._call(to, lambda node: node.drain())
            try:
                self._nodes[to].release()
            except OperatorError as error:
                self._on_error(error)

    def _forget(self, to: Forward) -> None:
        del self._nodes[to], self._locks[to], self._newest[to]

    def _go_on(self, former: Forward, to: Forward) -> None:
        """Let a new version not be given frames that the former one had, should they be read again."""
        with self._locks[former], self._locks[to]:
            newest = self._newest[to]
            for stream, index in self._newest[former].items():
                newest[stream] = max(index, newest.get(stream, -1))

    def _change_options(self, elements: Mapping[str, Element], *, prove_ns: int) -> None:
        """Let operators take over options: all of them, or none. Raises SightlineError."""
        former = {name: self._present[name].node.element for name in elements}
        done: list[str] = []
        try:
            for name, element in elements.items():
                self._present[name].node.prepare(element, prove_ns=prove_ns)
            for name, element in elements.items():
                done.append(name)
                with self._locks[name, self._versions[name]]:
                    error = self._present[name].node.change(element)
                if error is not None:
                    raise error
        except BaseException:
            for name in elements:
                self._present[name].node.abandon()
            for name in done:
                with self._locks[name, self._versions[name]]:
                    self._present[name].node.change(former[name])
            raise

    def _call(self, to: Forward, work: Callable[[Node], object]) -> None:
        if to in self._failed:
            return
        try:
            work(self._nodes[to])
        except SightlineError as error:
            self._failed.add(to)
            self._on_error(error)

    def _by_id(self) -> Mapping[str, list[Node]]:
        return {name: [built.node] for name, built in self._present.items()}
