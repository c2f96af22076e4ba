"""Change a pipeline: its description, and its run when there is one, are changed together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING

from sightline.devices import Device
from sightline.errors import ConfigurationError, SightlineError
from sightline.graph import Message, MessageKind, Outputs, PipelineDescription, SourceElement
from sightline.graph.registry import Registry
from sightline.redaction import redact
from sightline.runtime.iteration import end_because_of
from sightline.runtime.runner import Runner
from sightline.runtime.sources.manager import PendingChange, done
from sightline.runtime.threads import Worker
from sightline.runtime.watchdog import Watch

if TYPE_CHECKING:
    from typing import Self

Source = str | Path | Mapping[str, object] | SourceElement
"""A source as Python code gives it: a URI or path, a mapping as in YAML, or a source element."""
_Changed = tuple[str, tuple[str, ...]]
_FIXED = ("name", "device", "keep_running", "overwrite", "outbox")


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """The differences between two mappings of sources: names, and the sources wanted now."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    wanted: Mapping[str, SourceElement]

    @classmethod
    def between(cls, old: Mapping[str, SourceElement], new: Mapping[str, SourceElement]) -> Self:
        """Compare two mappings of sources."""
        return cls(
            added=tuple(name for name in new if name not in old),
            removed=tuple(name for name in old if name not in new),
            changed=tuple(name for name in old if name in new and old[name] != new[name]),
            wanted=new,
        )

    def carry_out(self, runner: Runner, *, now: Mapping[str, SourceElement]) -> list[PendingChange]:
        """Add, remove and replace streams of a run, whose sources are `now`."""
        under_way = [runner.remove_source(name) for name in self.removed if name in now]
        for name in (*self.changed, *self.added):
            change = runner.replace_source if name in now else runner.add_source
            under_way.append(change(name, self.wanted[name]))
        return under_way

    def applied(self, now: Mapping[str, SourceElement]) -> dict[str, SourceElement]:
        """Return the sources after the changes."""
        kept = {name: source for name, source in now.items() if name not in self.removed}
        return {**kept, **{name: self.wanted[name] for name in (*self.changed, *self.added)}}


class Control:
    """Holds the description of a pipeline, and its run when there is one; from any thread.

    Every request is checked first, as a whole, and changes nothing when it is wrong.
    """

    def __init__(
        self,
        description: PipelineDescription,
        *,
        outputs_root: Path | None,
        post: Callable[[Message], None],
        given: Device | None = None,
    ) -> None:
        self.description = description
        self.runner: Runner | None = None
        self._outputs_root = outputs_root
        self._given = given
        self._post = post
        self._lock = RLock()
        self._reloading = Lock()

    @cached_property
    def _registry(self) -> Registry:
        return Registry()

    def check(self, description: PipelineDescription, *, streams_may_come: bool = False) -> None:
        """Raises ConfigurationError with every mistake."""
        from sightline.config import InvalidConfiguration, check_description

        outputs = Outputs(self._outputs_root)
        problems = check_description(
            description,
            outputs=outputs,
            registry=self._registry,
            streams_may_come=streams_may_come,
            given=self._given_for(description),
        )
        if problems:
            raise InvalidConfiguration(problems)

    def begin(self, make: Callable[[PipelineDescription, tuple[Watch, ...]], Runner]) -> Runner:
        """Check the description, make a run of it and start it. Raises ConfigurationError when one runs already."""
        with self._lock:
            if self._running() is not None:
                raise ConfigurationError("the pipeline is running: stop() it and wait() for its end to run it again")
            self.check(self.description)
            self.runner = runner = make(self.description, self._watches())
        try:
            runner.start()
        except BaseException as error:
            if runner.has_streams:
                end_because_of(error, runner)
            else:
                self.runner = None
            raise
        return runner

    def add_source(self, name: str, described: Source) -> PendingChange:
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
            change = done() if runner is None else runner.add_source(name, source)
            self.description = self._with_sources({**now, name: source})
            return change

    def remove_source(self, name: str) -> PendingChange:
        """Remove a stream. Raises ConfigurationError when there is none of that name."""
        with self._lock:
            runner, now = self._running(), self.description.sources
            if name not in now:
                raise ConfigurationError(f"there is no stream {name!r}; streams: {', '.join(now) or 'none'}")
            change = done() if runner is None else runner.remove_source(name)
            self.description = self._with_sources({one: source for one, source in now.items() if one != name})
            return change

    def reload(self, read: Callable[[], PipelineDescription]) -> PendingChange:
        """Become the description that `read` returns; it is called in a thread of its own."""
        reload = _Reload(lambda: self._become(lambda _: read()))
        reload.start()
        return reload.change

    def _become(self, make: Callable[[PipelineDescription], PipelineDescription]) -> None:
        """Become what `make` makes of the present description. Posts and raises what is wrong with it."""
        with self._reloading:
            try:
                self._change(self.description, make(self.description))
            except SightlineError as error:
                text = f"the change is refused, and everything goes on as it was: {redact(error)}"
                self._post(Message(MessageKind.WARNING, text))
                raise

    def _change(self, old: PipelineDescription, new: PipelineDescription) -> None:
        runner = self._running()
        self._check_change(old, new, is_running=runner is not None)
        if runner is None:
            self.description = new
            return
        changed: list[_Changed] = []
        if runner.differs(new.steps):
            rebuilt = runner.rebuild(new.steps)
            changed += [("changed", rebuilt.changed), ("rebuilt", rebuilt.built)]
            changed += [("kept", rebuilt.kept), ("gone", rebuilt.gone)]
        if old.batch != new.batch:
            runner.set_batch(new.batch)
            changed.append(("changed", ("batch",)))
        changes = SourceChanges.between(old.sources, new.sources)
        with runner.kept_open():
            with self._lock:
                pending = changes.carry_out(runner, now=self.description.sources)
                self.description = new.model_copy(update={"sources": changes.applied(self.description.sources)})
            for change in pending:
                change.wait()
        self._report([*changed, ("added", changes.added), ("removed", changes.removed), ("restarted", changes.changed)])

    def _check_change(self, old: PipelineDescription, new: PipelineDescription, *, is_running: bool) -> None:
        self.check(new, streams_may_come=is_running)
        if not is_running:
            return
        fixed = [name for name in _FIXED if getattr(old, name) != getattr(new, name)]
        paths = [None if one.sources_file is None else one.sources_file.path for one in (old, new)]
        fixed += ["sources_file"] if paths[0] != paths[1] else []
        if fixed:
            raise ConfigurationError(f"{' and '.join(fixed)} cannot change while the pipeline runs: start it again")

    def _report(self, changes: Sequence[_Changed]) -> None:
        parts = [f"{what} {', '.join(names)}" for what, names in changes if names]
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

    def _running(self) -> Runner | None:
        return self.runner if self.runner is not None and self.runner.running else None

    def _watches(self) -> tuple[Watch, ...]:
        file = self.description.sources_file
        return () if file is None else (Watch(file.path, on_change=self._follow_sources_file),)

    def _follow_sources_file(self) -> None:
        """Add and remove streams because the sources file has changed."""
        with suppress(SightlineError):  # posted where it is raised
            self._become(_with_streams_of_its_file)


def _with_streams_of_its_file(description: PipelineDescription) -> PipelineDescription:
    """Return the description with the present streams of its sources file. Raises ConfigurationError."""
    from sightline.config import read_streams

    file = description.sources_file
    assert file is not None
    read = read_streams(file.path)
    own = {name: source for name, source in description.sources.items() if name not in file.streams}
    doubled = [name for name in read if name in own]
    if doubled:
        raise ConfigurationError(f"{file.path}: there are streams {', '.join(doubled)} besides it: rename them")
    new_file = file.model_copy(update={"streams": tuple(read)})
    return description.model_copy(update={"sources": {**own, **read}, "sources_file": new_file})


class _Reload(Worker):
    """Carries out one reload."""

    def __init__(self, carry_out: Callable[[], None]) -> None:
        super().__init__("reload")
        self.change = PendingChange()
        self._carry_out = carry_out

    def work(self) -> None:
        """Carry it out."""
        try:
            self._carry_out()
        except BaseException as error:  # noqa: BLE001  raised where the change is waited for
            self.change.fail(error)
        else:
            self.change.finish()
