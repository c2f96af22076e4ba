"""Change a pipeline: its description, and its run when there is one, are changed together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from threading import Lock, RLock

from sightline.control.configuration import Configuration, Versions
from sightline.control.sources import SourceChanges, with_streams_of_its_file, with_streams_of_the_file_of
from sightline.control.trial import Trial
from sightline.devices import Device
from sightline.errors import ChangeReverted, ConfigurationError, SightlineError, StaleConfiguration
from sightline.graph import (
    Clock,
    Element,
    Message,
    MessageKind,
    Outputs,
    PipelineDescription,
    SourceElement,
    StreamState,
)
from sightline.graph.live_options import Promotes
from sightline.graph.registry import Registry
from sightline.redaction import redact
from sightline.runtime.call_scope import CallScope
from sightline.runtime.iteration import end_because_of
from sightline.runtime.run import Run
from sightline.runtime.sources.manager import PendingChange, done
from sightline.runtime.threads import Worker
from sightline.runtime.watchdog import Watch

Source = str | Path | Mapping[str, object] | SourceElement
"""A source as Python code gives it: a URI or path, a mapping as in YAML, or a source element."""
Edit = Callable[[PipelineDescription], PipelineDescription]
"""Makes a new description of the present one. It is called in a thread of its own, once."""
_FIXED = ("name", "device", "keep_running", "overwrite", "outbox", "state", "processes", "telemetry", "cluster")
_POLL_SECONDS = 0.1


class Change(PendingChange):
    """A change that is under way, has proven itself, or has failed. Waiting for it raises why it failed.

    `applied` is done earlier: when the change holds and, in a pipeline that runs, its steps and streams run. It then
    still can be reverted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.applied = PendingChange()

    def fail(self, error: BaseException) -> None:
        """Mark it as failed."""
        if not self.applied.done:
            self.applied.fail(error)
        super().fail(error)


class Control:
    """Holds the description of a pipeline, and its run when there is one; from any thread.

    Every request is checked first, as a whole, and changes nothing when it is wrong. Changes take turns: each is made
    from what the one before has left. While one proves itself, the next may be applied.
    """

    def __init__(
        self,
        description: PipelineDescription,
        *,
        outputs_root: Path | None,
        post: Callable[[Message], None],
        clock: Clock,
        scope: CallScope,
        given: Device | None = None,
    ) -> None:
        self._scope = scope
        self.runner: Run | None = None
        self._versions = Versions(description, epoch_ns=clock.epoch_ns)
        self._outputs_root = outputs_root
        self._given = given
        self._post = post
        self._lock = RLock()
        self._turn = Lock()
        self._trials: list[Trial] = []

    @cached_property
    def _registry(self) -> Registry:
        return Registry()

    @property
    def description(self) -> PipelineDescription:
        """What the pipeline is now."""
        return self.configuration.description

    @property
    def configuration(self) -> Configuration:
        """The present version of it."""
        with self._lock:
            return self._versions.present

    @property
    def versions(self) -> tuple[Configuration, ...]:
        """The versions that are kept, the present one last."""
        with self._lock:
            return self._versions.all

    def check(
        self,
        description: PipelineDescription,
        *,
        streams_may_come: bool = False,
        is_checked: Callable[[str, Element], bool] = lambda _, __: False,
    ) -> None:
        """Raises ConfigurationError with every mistake; see `check_description`."""
        from sightline.config import InvalidConfiguration, check_description

        outputs = Outputs(self._outputs_root)
        problems = check_description(
            description,
            outputs=outputs,
            registry=self._registry,
            streams_may_come=streams_may_come,
            given=self._given_for(description),
            is_checked=is_checked,
        )
        if problems:
            raise InvalidConfiguration(problems)

    def begin(self, make: Callable[[PipelineDescription, tuple[Watch, ...]], Run]) -> Run:
        """Check the description, make a run of it and start it. Raises ConfigurationError when one runs already."""
        with self._lock:
            if self._running() is not None:
                raise ConfigurationError("the pipeline is running: stop() it and wait() for its end to run it again")
            self.check(self.description)
            with self._scope.entered():
                self.runner = runner = make(self.description, self._watches())
        try:
            with self._scope.entered():
                runner.start()
        except BaseException as error:
            if runner.has_streams:
                end_because_of(error, runner)
            else:
                self.runner = None
            raise
        return runner

    def add_source(self, name: str, described: Source, *, by: str = "", epoch: int | None = None) -> PendingChange:
        """Add a stream. Raises ConfigurationError when that is not possible."""
        from sightline.config import name_problems, source_from

        source = source_from(described, name=name, registry=self._registry)
        self._check_free(name)
        self._check_joining(name, source)
        with self._lock:
            self._check_free(name)
            now = self.description.sources
            clashing = [message for wrong, message in name_problems({**now, name: source}) if wrong == name]
            if clashing:  # with one that was added meanwhile
                raise ConfigurationError(f"the stream {name!r} {clashing[0]}")
            runner = self._running()
            if epoch is not None:
                if runner is None:
                    raise ConfigurationError(f"the stream {name!r} cannot begin an epoch: start the pipeline first")
                runner.begin_epoch(name, epoch)
            with self._scope.entered():
                change = done() if runner is None else runner.add_source(name, source)
            change.scope = self._scope
            self._versions.add(self._with_sources({**now, name: source}), by=by)
            return change

    def remove_source(self, name: str, *, by: str = "") -> PendingChange:
        """Remove a stream. Raises ConfigurationError when there is none of that name."""
        with self._lock:
            runner, now = self._running(), self.description.sources
            if name not in now:
                raise ConfigurationError(f"there is no stream {name!r}; streams: {', '.join(now) or 'none'}")
            with self._scope.entered():
                change = done() if runner is None else runner.remove_source(name)
            change.scope = self._scope
            self._versions.add(self._with_sources({one: now[one] for one in now if one != name}), by=by)
            return change

    def change(self, edit: Edit, *, expected: str | None = None, prove_ns: int = 0, by: str = "") -> Change:
        """Become what `edit` makes of the present description; see `Pipeline.change`."""
        with self._scope.entered():
            asked = _Changing(lambda change: self._become(edit, change, expected=expected, prove_ns=prove_ns, by=by))
        asked.change.scope = asked.change.applied.scope = self._scope
        asked.start()
        return asked.change

    def roll_back(self, *, to: str | None = None, prove_ns: int = 0, by: str = "") -> Change:
        """Become an earlier version again; see `Pipeline.roll_back`."""

        def restore(present: PipelineDescription) -> PipelineDescription:
            with self._lock:
                former = self._versions.to_restore(to)
            return with_streams_of_the_file_of(present, former)

        return self.change(restore, prove_ns=prove_ns, by=by)

    def promote(self, element_id: str, *, prove_ns: int) -> Change:
        """Let the second model of a step take the place of the first one, when it still has one."""

        def edit(present: PipelineDescription) -> PipelineDescription:
            element = present.element(element_id)
            promoted = element.promoted() if isinstance(element, Promotes) else None
            return present if promoted is None else present.with_element(element_id, promoted)

        return self.change(edit, prove_ns=prove_ns, by=element_id)

    def _become(
        self, edit: Edit, change: Change | None = None, *, expected: str | None = None, prove_ns: int = 0, by: str = ""
    ) -> None:
        """Become what `edit` makes of the present description, and let it prove itself. Posts and raises what is wrong
        with it.
        """
        with ExitStack() as on_probation:
            with self._turn:
                self._revert_what_has_failed()
                try:
                    with self._lock:
                        self._versions.check(expected)
                        old = self.description
                    trial = self._apply(old, _edited(old, edit), prove_ns=prove_ns, by=by, on_probation=on_probation)
                except StaleConfiguration:
                    raise
                except SightlineError as error:
                    text = f"the change is refused, and everything goes on as it was: {redact(error)}"
                    self._post(Message(MessageKind.WARNING, text))
                    raise
                if change is not None:
                    change.applied.finish()
            if trial is not None:
                self._judge(trial, change)

    def _apply(
        self, old: PipelineDescription, new: PipelineDescription, *, prove_ns: int, by: str, on_probation: ExitStack
    ) -> Trial | None:
        runner = self._running()
        if runner is None:
            self.check(new)
            with self._lock:
                self._versions.add(new, by=by)
            return None
        self._check_change(runner, old, new)
        changes = SourceChanges.between(old.sources, new.sources)
        touches_steps = runner.differs(new.steps) or old.batch != new.batch
        if touches_steps:  # what is reverted takes along what was built upon it
            prove_ns = max([prove_ns, *[round(one.seconds_left * 1e9) for one in self._trials]])
        is_on_probation = prove_ns > 0 and bool(touches_steps or changes.added or changes.changed)
        if is_on_probation:
            on_probation.enter_context(runner.probation.of_a_change())
        live = [name for name, one in runner.streams().items() if one.state is StreamState.LIVE]
        changed = self._carry_out(runner, old, new, by=by, prove_ns=prove_ns if is_on_probation else 0)
        self._report(changed)
        if not is_on_probation:
            return None
        trial = Trial(
            runner,
            old=old,
            new=new,
            version=self.configuration.number,
            built=[*changed["rebuilt"], *changed["changed"]],
            live=live,
            prove_ns=prove_ns,
        )
        self._trials.append(trial)
        return trial

    def _judge(self, trial: Trial, change: Change | None) -> None:
        """Wait until a change has proven itself. Raises why it has not, when it is taken back."""
        runner = trial.runner
        while True:
            if trial.failure() is None and trial.reverted is None and not trial.is_over():
                runner.probation.wait(_POLL_SECONDS)
                continue
            with self._turn:
                failure = trial.failure()
                if trial.reverted is None and failure is not None:
                    if trial.is_stuck and change is not None:
                        change.fail(
                            ChangeReverted(f"{failure}; the change is reverted when it does", element=failure.element)
                        )
                    self._revert(trial, failure)
                if trial.reverted is not None:
                    raise trial.reverted
                if trial.is_over():
                    self._trials.remove(trial)
                    if runner.error is not None:
                        raise runner.error
                    with self._lock:
                        self._versions.prove(trial.version)
                    return

    def _revert_what_has_failed(self) -> None:
        """Take changes back whose steps have failed, before another one is built upon them."""
        for trial in list(self._trials):
            if trial in self._trials and trial.runner.probation.error is not None:
                failure = trial.failure()
                if failure is not None:
                    self._revert(trial, failure)

    def _revert(self, trial: Trial, failure: ChangeReverted) -> None:
        """Take a change back that has failed, with those that were made after it and are on probation, too. When an
        element has failed, it is the last change that built it; when none did, all are taken back.
        """
        runner = trial.runner
        builders = [one for one in self._trials if failure.element in one.built]
        first = trial if failure.element is None else builders[-1] if builders else self._trials[0]
        undone = self._trials[self._trials.index(first) :]
        for one in undone:
            self._trials.remove(one)
        present = self.description
        before = present
        for one in reversed(undone):
            before = one.undo(before)
        text = "the change is reverted, and everything is as it was before"
        try:
            self._carry_out(runner, present, before, by="probation", prove_ns=0)
        except SightlineError as error:  # a step cannot be built any more, or the run has ended meanwhile
            text = "the change has failed, and the run ends"
            if runner.running:
                runner.failed(error)
            with self._lock:
                self._versions.add(before, by="probation")
        finally:
            runner.let_frames_in()
        lost = runner.probation.settle()
        text += f": {redact(failure)}"
        text += f"; {lost} frames that met the error were dropped" if lost else ""
        self._post(Message(MessageKind.REVERTED, text, stream=failure.stream, element=failure.element))
        for one in undone:
            also = "" if one is first else "it was made after a change that failed; "
            one.reverted = ChangeReverted(also + text, element=failure.element, stream=failure.stream)
            one.reverted.__cause__ = failure.__cause__

    def _carry_out(
        self, runner: Run, old: PipelineDescription, new: PipelineDescription, *, by: str, prove_ns: int
    ) -> dict[str, tuple[str, ...]]:
        """Change a run, and the description with it; return what was done with which elements and streams. The change
        is on probation for `prove_ns`.
        """
        changed: dict[str, tuple[str, ...]] = {"changed": (), "rebuilt": (), "kept": (), "gone": ()}
        if runner.differs(new.steps):
            rebuilt = runner.rebuild(new.steps, prove_ns=prove_ns)
            changed |= {"changed": rebuilt.changed, "rebuilt": rebuilt.built}
            changed |= {"kept": rebuilt.kept, "gone": rebuilt.gone}
        if old.batch != new.batch:
            runner.set_batch(new.batch)
            changed["changed"] += ("batch",)
        changes = SourceChanges.between(old.sources, new.sources)
        with runner.kept_open():
            with self._lock:
                now = self.description.sources
                pending = changes.carry_out(runner, now=now)
                made = new.model_copy(update={"sources": changes.applied(now)})
                self._versions.add(made, by=by, is_proven=not prove_ns)
            for one in pending:
                _wait(one, meanwhile=runner.let_frames_in)
        return {**changed, "added": changes.added, "removed": changes.removed, "restarted": changes.changed}

    def _check_change(self, runner: Run, old: PipelineDescription, new: PipelineDescription) -> None:
        is_of_the_same_streams = old.sources.keys() == new.sources.keys()
        self.check(
            new,
            streams_may_come=True,
            is_checked=lambda element_id, element: is_of_the_same_streams and runner.runs(element_id, element),
        )
        fixed = [name for name in _FIXED if getattr(old, name) != getattr(new, name)]
        paths = [None if one.sources_file is None else one.sources_file.path for one in (old, new)]
        fixed += ["sources_file"] if paths[0] != paths[1] else []
        if fixed:
            raise ConfigurationError(f"{' and '.join(fixed)} cannot change while the pipeline runs: start it again")

    def _report(self, changed: Mapping[str, tuple[str, ...]]) -> None:
        parts = [f"{what} {', '.join(names)}" for what, names in changed.items() if names]
        text = "; ".join(parts) or "nothing has changed"
        self._post(Message(MessageKind.RELOADED, f"reloaded: {text}"))

    def _check_free(self, name: str) -> None:
        runner = self._running()
        if runner is not None:
            runner.check_free(name)
        elif name in self.description.sources:
            raise ConfigurationError(f"there is a stream {name!r} already: remove it first, or take another name")

    def _check_joining(self, name: str, source: SourceElement) -> None:
        from sightline.config import InvalidConfiguration, check_joining

        description = self._with_sources({**self.description.sources, name: source})
        outputs = Outputs(self._outputs_root)
        given = self._given_for(description)
        problems = check_joining(description, name, outputs=outputs, registry=self._registry, given=given)
        if problems:
            raise InvalidConfiguration(problems)

    def _given_for(self, description: PipelineDescription) -> Device | None:
        return None if description.device == "cpu" else self._given

    def _with_sources(self, sources: Mapping[str, SourceElement]) -> PipelineDescription:
        return self.description.model_copy(update={"sources": dict(sources)})

    def _running(self) -> Run | None:
        return self.runner if self.runner is not None and self.runner.running else None

    def _watches(self) -> tuple[Watch, ...]:
        file = self.description.sources_file
        return () if file is None else (Watch(file.path, on_change=self._follow_sources_file),)

    def _follow_sources_file(self) -> None:
        """Add and remove streams because the sources file has changed."""
        with suppress(SightlineError):  # posted where it is raised
            self._become(with_streams_of_its_file, by="sources file")


def _edited(description: PipelineDescription, edit: Edit) -> PipelineDescription:
    edited: object = edit(description)
    if not isinstance(edited, PipelineDescription):
        raise ConfigurationError(f"an edit returns the new description, and this one returned {edited!r}")
    return edited


def _wait(change: PendingChange, *, meanwhile: Callable[[], None]) -> None:
    """Wait for a stream. One that leaves needs its last frames to pass the steps, also when these have failed."""
    while True:
        meanwhile()
        with suppress(TimeoutError):
            return change.wait(_POLL_SECONDS)


class _Changing(Worker):
    """Carries out one change."""

    def __init__(self, carry_out: Callable[[Change], None]) -> None:
        super().__init__("change")
        self.change = Change()
        self._carry_out = carry_out

    def work(self) -> None:
        """Carry it out."""
        try:
            self._carry_out(self.change)
        except BaseException as error:  # noqa: BLE001  raised where the change is waited for
            if not self.change.done:
                self.change.fail(error)
        else:
            self.change.finish()
