"""Changes of the steps of a run in several processes: all of its workers, and the main process, go on with others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock

from sightline.errors import SightlineError
from sightline.graph import Element, Step
from sightline.graph.tree import identify
from sightline.runtime.probation import Probation
from sightline.runtime.processes.main_steps import MainChange, MainSteps
from sightline.runtime.processes.share import Share
from sightline.runtime.scheduling.element_totals import Failures
from sightline.runtime.scheduling.lanes import AtItsEnd, Rebuilt

_LOOK_SECONDS = 0.05


class WorkersProbation(Probation):
    """Changes are on probation in all workers: the first error in one of them, or the loss of one, is the error here.

    Only the worker, or step, that failed holds its frames.
    """

    def __init__(self, shares: Sequence[Share]) -> None:
        super().__init__(hold=lambda: None)
        self._shares = shares
        self._opening = RLock()
        self._changes = 0

    @property
    def is_open(self) -> bool:
        """Whether a change is on probation."""
        return self._changes > 0

    @contextmanager
    def of_a_change(self) -> Iterator[None]:
        """Take errors while the block is open."""
        with super().of_a_change():
            self._count(1)
            try:
                yield
            finally:
                self._count(-1)

    def settle(self) -> int:
        """Note in all workers that what failed was taken back; return how many frames were dropped."""
        lost = sum(share.ask("settle_probation") or 0 for share in self._shares)
        return lost + super().settle()

    def _count(self, step: int) -> None:
        with self._opening:
            was_open = self.is_open
            self._changes += step
            if self.is_open != was_open:
                answers = [share.begin_to_ask("prove", begins=self.is_open) for share in self._shares]
                for answer in answers:
                    answer.wait()


class StepChanges:
    """Exchanges the steps of all workers; `adopt` notes those that workers get which are started from now on.

    All workers build first, and none changes when one cannot. Then each changes between two batches of its own, so a
    stream meets a change between two of its frames. Where one refuses even then, those that have changed change back;
    when one cannot, `fail` ends the run.
    """

    def __init__(
        self,
        shares: Sequence[Share],
        *,
        main: MainSteps,
        adopt: Callable[[tuple[Step, ...], Mapping[str, int]], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._shares, self._main, self._adopt, self._fail = shares, main, adopt, fail

    def runs(self, element_id: str, element: Element) -> bool:
        """Whether all workers, or the main process, have this step with these options."""
        if is_of_main(element):
            return self._main.runs(element_id, element)
        answers = [share.begin_to_ask("runs", element_id, element) for share in self._shares]
        return all(answer.wait() is not False for answer in answers)

    def differ(self, steps: tuple[Step, ...]) -> bool:
        """Whether these steps differ from the present ones, or files that they read have changed."""
        if self._main.differs(of_main(steps)):
            return True
        answers = [share.begin_to_ask("differs", steps, self._main.forwarded) for share in self._shares]
        return any(answer.wait() for answer in answers)

    def carry_out(self, former: tuple[Step, ...], steps: tuple[Step, ...], *, prove_ns: int) -> Rebuilt:
        """Continue with other steps, in the main process and in all workers; wait until they run. Raises
        SightlineError, and continues with the former ones.
        """
        if not any(share.running for share in self._shares):
            raise AtItsEnd
        before = self._main.forwarded
        change = self._main.begin(of_main(steps), prove_ns=prove_ns)
        answers: list[Rebuilt] = []
        try:
            answers = self._pass(steps, change.forwarded, prove_ns=prove_ns)
        except SightlineError:
            try:
                self._pass(former, before, prove_ns=0)
            except SightlineError as error:
                self._fail(error)
            self._main.withdraw(change)
            raise
        self._main.finish(change)
        return _told(former, steps, change, answers)

    def _pass(self, steps: tuple[Step, ...], forwarded: Mapping[str, int], *, prove_ns: int) -> list[Rebuilt]:
        """Let all workers change, at the same time. Raises the first error of those that refuse, when all are done."""
        self._adopt(steps, forwarded)
        for share in self._shares:
            share.built.clear()
        pending = [share.begin_to_ask("rebuild", steps, forwarded, prove_ns=prove_ns) for share in self._shares]
        for share, one in zip(self._shares, pending, strict=True):
            while not (one.is_there or share.built.wait(_LOOK_SECONDS)):
                pass
        is_agreed = not any(one.has_failed for one in pending)
        for share in self._shares:
            share.request("decide", is_agreed=is_agreed)
        answers, errors = [], []
        for one in pending:
            try:
                answer = one.wait()
            except SightlineError as error:
                errors.append(error)
            else:
                answers += [] if answer is None else [answer]
        if errors:
            raise errors[0]
        return answers


def of_main(steps: tuple[Step, ...]) -> dict[str, Element]:
    """Those of these steps whose operators the main process runs, by their ids."""
    return {name: element for name, element in identify(steps) if is_of_main(element)}


def is_of_main(element: Element) -> bool:
    """Whether the main process runs the operator of this step."""
    return element.sink and element.results_only


def merged_failures(parts: Sequence[Mapping[str, Failures]]) -> dict[str, Failures]:
    """How often steps have failed, over all workers."""
    found: dict[str, Failures] = {}
    for part in parts:
        for name, one in part.items():
            so_far = found.get(name, Failures(0, 0, ""))
            found[name] = Failures(so_far.calls + one.calls, so_far.failed + one.failed, one.last or so_far.last)
    return found


def _told(former: tuple[Step, ...], steps: tuple[Step, ...], change: MainChange, answers: Sequence[Rebuilt]) -> Rebuilt:
    """What became of each step: in the main process, or else in a worker; the same in all of them."""
    old, new = dict(identify(former)), dict(identify(steps))
    fates = {name: "kept" if old.get(name) == element else "built" for name, element in new.items()}
    for answer in answers[:1]:
        for fate in ("kept", "changed", "built"):
            fates |= {name: fate for name in getattr(answer, fate) if name in fates}
    fates |= dict.fromkeys(change.kept, "kept") | dict.fromkeys(change.changed, "changed")
    fates |= dict.fromkeys(change.built, "built")
    kept, changed, built = (
        tuple(name for name, one in fates.items() if one == fate) for fate in ("kept", "changed", "built")
    )
    return Rebuilt(kept, changed, built, gone=tuple(name for name in old if name not in new))
