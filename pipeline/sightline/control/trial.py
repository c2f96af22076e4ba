"""A change on probation: what it changed, and whether the run has been well since."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from time import monotonic_ns

from sightline.control.sources import SourceChanges
from sightline.errors import ChangeReverted
from sightline.graph import PipelineDescription, StreamState
from sightline.runtime import watchdog
from sightline.runtime.run import Run

_RESTING = (StreamState.WAITING, StreamState.PAUSED)
_WELL = (StreamState.LIVE, StreamState.ENDED, *_RESTING)
_HOPELESS = (StreamState.FAILED, StreamState.AUTH_FAILED)


class Trial:
    """Judges one change of a run; for one thread, except for `reverted`, which is set under the lock of changes.

    A change has failed as soon as an operator has failed, or a stream that it brought or restarted is given up or
    refused. At the end of `prove_ns` it has failed, too, when a stream that was live before, or that it brought, is
    not live (has not ended by itself, and is not paused), when a step that may be skipped has failed on every frame, or
    when a step does not return.
    """

    def __init__(
        self,
        runner: Run,
        *,
        old: PipelineDescription,
        new: PipelineDescription,
        version: int,
        built: Collection[str],
        live: Collection[str],
        prove_ns: int,
    ) -> None:
        self.runner = runner
        self.version = version
        self.built = frozenset(built)
        self.reverted: ChangeReverted | None = None
        """Why it was taken back, once it was."""
        self.is_stuck = False
        """Whether a step does not return, so that nothing can be taken back before it does."""
        self._old = old
        self._new = new
        changes = SourceChanges.between(old.sources, new.sources)
        self._fresh = frozenset((*changes.added, *changes.changed))
        self._live = frozenset(live) - self._fresh
        self._prove_ns = prove_ns
        self._end_ns = monotonic_ns() + prove_ns
        self._failures = runner.failures()

    @property
    def seconds_left(self) -> float:
        """How long it still is on probation; not below 0."""
        return max(0.0, (self._end_ns - monotonic_ns()) / 1e9)

    def is_over(self) -> bool:
        """Whether its time is over and every call of a step that was under way then has returned; or the run has
        ended.
        """
        if not self.runner.running:
            return True
        seconds_over = (monotonic_ns() - self._end_ns) / 1e9
        return seconds_over >= 0 and not self.runner.slow_calls(seconds=seconds_over)

    def failure(self) -> ChangeReverted | None:
        """Return why it has failed; None when nothing is wrong, or is not known to be yet."""
        error = self.runner.probation.error
        if error is not None:
            return _reverted(str(error), element=error.element, stream=error.stream, cause=error)
        if not self.runner.running:
            return None
        for name, stream in self.runner.streams().items():
            if name in self._fresh and stream.state in _HOPELESS:
                return _reverted(f"the stream {name!r} {_trouble(stream.state, stream.cause)}", stream=name)
        return self._failure_at_the_end() if not self.seconds_left else None

    def _failure_at_the_end(self) -> ChangeReverted | None:
        for element_id, seconds in self.runner.slow_calls(seconds=watchdog.STUCK_SECONDS).items():
            self.is_stuck = True
            return _reverted(f"element {element_id!r} has not returned for {seconds:.0f} s", element=element_id)
        for name, stream in self.runner.streams().items():
            if name not in self._fresh | self._live:
                continue
            has_come = name not in self._fresh or self.runner.has_come(name) or stream.state in _RESTING
            if not (stream.state in _WELL and has_come):
                trouble = _trouble(stream.state, stream.cause)
                what = "did not come" if name in self._fresh else "was live before, and is not any more"
                seconds = self._prove_ns / 1e9
                return _reverted(f"the stream {name!r} {what} within {seconds:g} s: it {trouble}", stream=name)
        return self._failure_on_every_frame()

    def _failure_on_every_frame(self) -> ChangeReverted | None:
        for element_id, now in self.runner.failures().items():
            counted = now.since(self._failures.get(element_id))
            if 0 < counted.calls <= counted.failed:
                return _reverted(f"a step fails on every frame: {counted.last}", element=element_id)
        return None

    def undo(self, description: PipelineDescription) -> PipelineDescription:
        """Return a description without this change; what others have changed besides it stays."""
        old, new = self._old, self._new
        undone = {
            name: getattr(old, name)
            for name in PipelineDescription.model_fields
            if name not in ("sources", "sources_file") and getattr(old, name) != getattr(new, name)
        }
        back = SourceChanges.between(new.sources, old.sources)
        left = {name for name in back.changed if name not in description.sources}
        sources = {name: one for name, one in back.applied(description.sources).items() if name not in left}
        file, former = description.sources_file, old.sources_file
        if file is not None and former is not None:
            listed = {*file.streams, *former.streams}
            undone["sources_file"] = file.model_copy(update={"streams": tuple(one for one in sources if one in listed)})
        return description.model_copy(update={**undone, "sources": sources})


def _reverted(
    why: str, *, element: str | None = None, stream: str | None = None, cause: BaseException | None = None
) -> ChangeReverted:
    reverted = ChangeReverted(why, element=element, stream=stream)
    reverted.__cause__ = cause
    return reverted


def _trouble(state: StreamState, cause: str | None) -> str:
    words: Mapping[StreamState, str] = {
        StreamState.CONNECTING: "is connecting",
        StreamState.AUTH_FAILED: "is refused by its server",
    }
    found = words.get(state, f"is {state}" if state is not StreamState.FAILED else "has failed")
    return f"{found} ({cause})" if cause else found
