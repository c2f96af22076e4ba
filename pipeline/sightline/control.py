"""The control of a pipeline: its description and its run, which are altered together."""

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
_FIXED = ("name", "device", "keep_running")


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """What has become other between two mappings of sources: names, and the sources wanted now."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    wanted: Mapping[str, SourceElement]

    @classmethod
    def between(cls, old: Mapping[str, SourceElement], new: Mapping[str, SourceElement]) -> Self:
        """The changes that make the new one of the old one."""
        return cls(
            added=tuple(name for name in new if name not in old),
            removed=tuple(name for name in old if name not in new),
            changed=tuple(name for name in old if name in new and old[name] != new[name]),
            wanted=new,
        )

    def carry_out(self, runner: Runner, *, now: Mapping[str, SourceElement]) -> list[PendingChange]:
        """Let the streams of a run come and go; those that came or went by themselves meanwhile are put right."""
        under_way = [runner.remove_source(name) for name in self.removed if name in now]
        for name in (*self.changed, *self.added):
            alter = runner.replace_source if name in now else runner.add_source
            under_way.append(alter(name, self.wanted[name]))
        return under_way

    def applied(self, now: Mapping[str, SourceElement]) -> dict[str, SourceElement]:
        """The sources that there are then."""
        kept = {name: source for name, source in now.items() if name not in self.removed}
        return {**kept, **{name: self.wanted[name] for name in (*self.changed, *self.added)}}


class Control:
    """Holds what a pipeline is, and its run when there is one; from any thread.

    Whatever is asked for is checked first, as a whole, and changes nothing when it is wrong.
    """

    def __init__(
        self,
        description: PipelineDescription,
        *,
        outputs_root: Path | None,
        tell: Callable[[Message], None],
        given: Device | None = None,
    ) -> None:
        self.description = description
        self.runner: Runner | None = None
        self._outputs_root = outputs_root
        self._given = given
        self._tell = tell
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
        """Check, make a run of what is described and start it. Raises ConfigurationError when there is one already."""
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
        """Let a stream come. Raises ConfigurationError when that is not possible."""
        from sightline.config import name_problems, source_from

        source = source_from(described, name=name, registry=self._registry)
        self._check_free(name)
        self._check_joining(name, source)
        with self._lock:
            self._check_free(name)
            now = self.description.sources
            clashing = [message for wrong, message in name_problems({**now, name: source}) if wrong == name]
            if clashing:  # with one that came meanwhile
                raise ConfigurationError(f"the stream {name!r} {clashing[0]}")
            runner = self._running()
            alteration = done() if runner is None else runner.add_source(name, source)
            self.description = self._with_sources({**now, name: source})
            return alteration

    def remove_source(self, name: str) -> PendingChange:
        """Let a stream go. Raises ConfigurationError when there is none of that name."""
        with self._lock:
            runner, now = self._running(), self.description.sources
            if name not in now:
                raise ConfigurationError(f"there is no stream {name!r}; streams: {', '.join(now) or 'none'}")
            alteration = done() if runner is None else runner.remove_source(name)
            self.description = self._with_sources({one: source for one, source in now.items() if one != name})
            return alteration

    def reload(self, read: Callable[[], PipelineDescription]) -> PendingChange:
        """Become what `read` returns, which is called in a thread of its own; done when all of it is."""
        reload = _Reload(lambda: self._become(lambda _: read()))
        reload.start()
        return reload.alteration

    def _become(self, make: Callable[[PipelineDescription], PipelineDescription]) -> None:
        """Become what `make` makes of the present description; what is wrong with it is told, and raised."""
        with self._reloading:
            try:
                self._change(self.description, make(self.description))
            except SightlineError as error:
                text = f"the change is refused, and everything goes on as it was: {redact(error)}"
                self._tell(Message(MessageKind.WARNING, text))
                raise

    def _change(self, old: PipelineDescription, new: PipelineDescription) -> None:
        runner = self._running()
        self._check_change(old, new, is_running=runner is not None)
        if runner is None:
            self.description = new
            return
        told: list[_Changed] = []
        if runner.differs(new.steps):
            rebuilt = runner.rebuild(new.steps)
            told += [("rebuilt", rebuilt.built), ("kept", rebuilt.kept), ("gone", rebuilt.gone)]
        if old.batch != new.batch:
            runner.gather_by(new.batch)
            told.append(("changed", ("batch",)))
        changes = SourceChanges.between(old.sources, new.sources)
        with runner.kept_open():
            with self._lock:
                alterations = changes.carry_out(runner, now=self.description.sources)
                self.description = new.model_copy(update={"sources": changes.applied(self.description.sources)})
            for alteration in alterations:
                alteration.wait()
        self._tell_of([*told, ("added", changes.added), ("removed", changes.removed), ("restarted", changes.changed)])

    def _check_change(self, old: PipelineDescription, new: PipelineDescription, *, is_running: bool) -> None:
        self.check(new, streams_may_come=is_running)
        if not is_running:
            return
        fixed = [name for name in _FIXED if getattr(old, name) != getattr(new, name)]
        paths = [None if one.sources_file is None else one.sources_file.path for one in (old, new)]
        fixed += ["sources_file"] if paths[0] != paths[1] else []
        if fixed:
            raise ConfigurationError(f"{' and '.join(fixed)} cannot change while the pipeline runs: start it again")

    def _tell_of(self, changes: Sequence[_Changed]) -> None:
        parts = [f"{what} {', '.join(names)}" for what, names in changes if names]
        text = "; ".join(parts) or "nothing has changed"
        self._tell(Message(MessageKind.RELOADED, f"reloaded: {text}"))

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
        """The sources file has changed: let its streams come and go."""
        with suppress(SightlineError):  # told by who raises it
            self._become(_with_streams_of_its_file)


def _with_streams_of_its_file(description: PipelineDescription) -> PipelineDescription:
    """The description with what its sources file holds now. Raises ConfigurationError."""
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
        self.alteration = PendingChange()
        self._carry_out = carry_out

    def work(self) -> None:
        """Carry it out."""
        try:
            self._carry_out()
        except BaseException as error:  # noqa: BLE001  raised where the alteration is waited for
            self.alteration.fail(error)
        else:
            self.alteration.finish()
