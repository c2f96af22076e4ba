"""A canary: a second model that serves some of the streams while it is compared with the first one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import ceil
from zlib import crc32

from sightline.errors import CudaFailed, ModelError
from sightline.graph.site import Clock
from sightline.media import Batch
from sightline.media.time import format_duration
from sightline_plugins.infer.comparison import compare
from sightline_plugins.infer.open_model import OpenModel
from sightline_plugins.infer.operator import ModelOperator, PendingBatch
from sightline_plugins.infer.trial import FailureCause, Timings, Trial, TrialState, Verdict
from sightline_plugins.infer.trial_options import CanaryOptions

_COMPARED_AT_FIRST = 10
"""Batches of a canary on which it is always compared with the first model."""

GiveTo = Callable[[ModelOperator], PendingBatch]
"""Gives a batch to a model."""


class Canary:
    """Serves its share of the streams until it fails. All in the thread that gives batches to the step.

    On some batches the first model runs as well, before it and on the same frames, so that results and times can be
    compared; its results are those that count when the canary fails on that batch.
    """

    def __init__(self, options: CanaryOptions, model: OpenModel, *, beside: str, clock: Clock) -> None:
        self.options = options
        self.model = model
        self.trial = Trial("canary", str(model), beside, options, Timings())
        self._clock = clock
        self._until_ns = clock.monotonic_ns() + options.prove
        self.trial.lacks = self._lacks
        self._batches = self._compared = 0
        self._is_comparable = model.operator.plan.stack is None
        self._streams: frozenset[str] = frozenset()
        self._chosen: frozenset[str] = frozenset()

    @property
    def serves(self) -> bool:
        """Whether it has not failed."""
        return self.trial.state is not TrialState.ROLLED_BACK

    def has_failed(self, options: CanaryOptions) -> bool:
        """Whether it has failed with these options, so that it is not opened again."""
        return not self.serves and self.options == options

    def rows(self, batch: Batch, *, streams: Collection[str]) -> list[int]:
        """Return the rows of the frames that it gets, of a batch of some of these streams."""
        if self._streams != streams:
            self._streams = frozenset(streams)
            self._chosen = chosen_streams(self._streams, share=self.options.share)
        return [row for row, frame in enumerate(batch.frames) if frame.stream.name in self._chosen]

    def compares(self) -> bool:
        """Whether the first model runs as well on the next batch."""
        return self._batches < _COMPARED_AT_FIRST or self._batches % self.options.compare == 0

    def compute(
        self, batch: Batch, give: GiveTo, *, first: ModelOperator | None
    ) -> tuple[Batch | None, Verdict | None]:
        """Return what it makes of a batch, and why it has failed, if it has; nothing where the first model has to make
        it. `first` is that model, for a comparison. Raises CudaFailed, and what the first model raises.
        """
        self._batches += 1
        self._compared += first is not None
        is_last = self._compared % 2 == 0  # in turn: what runs first shares the processor with the batch before
        reference = None if first is None or is_last else self._timed(batch, first.process)
        try:
            own = self._timed(batch, lambda _: give(self.model.operator))
        except CudaFailed:
            raise
        except Exception as error:  # noqa: BLE001  whatever it does wrong, the first model goes on
            return None if reference is None else reference.result, Verdict.of_error(error)
        if first is not None and is_last:
            reference = self._timed(batch, first.process)
        self._count(own, reference)
        verdict = self.trial.judge()
        if verdict is not None and verdict.condition is FailureCause.INVALID_OUTPUTS:
            return None if reference is None else reference.result, verdict
        return own.result, verdict

    def has_proved_itself(self) -> bool:
        """Note, once, that it has proved itself; return whether it is so now for the first time."""
        is_early = self._clock.monotonic_ns() < self._until_ns
        if self.trial.state is not TrialState.TRIAL or is_early or self._lacks():
            return False
        self.trial.keep()
        return True

    def check_promotion(self) -> None:
        """Raise ModelError as long as it has not proved itself, and may not become the model of the step."""
        if self.trial.state is TrialState.TRIAL and (lacks := self._lacks()):
            raise ModelError(
                f"the canary {self.model} has not proved itself: {lacks}. Wait, or take it out first (`canary: null`)"
            )

    def _lacks(self) -> str:
        """Return what it has not proved yet, in words."""
        options, trial, lacks = self.options, self.trial, list[str]()
        left_ns = self._until_ns - self._clock.monotonic_ns()
        if left_ns > 0:
            lacks.append(f"{ceil(left_ns / 1e9)} s of {format_duration(options.prove)} are left")
        if trial.frames < options.prove_frames:
            lacks.append(f"it has served {trial.frames} of {options.prove_frames} frames")
        if self._is_comparable and trial.comparisons.disagreement is None:
            lacks.append("on too few compared frames there was anything to compare")
        return ", and ".join(lacks)

    def _count(self, own: _Timed, reference: _Timed | None) -> None:
        trial = self.trial
        if reference is None or not (own.runs and reference.runs):
            trial.count(frames=len(own.result), runs=own.runs, invalid=own.invalid)
            return
        trial.add(own.seconds, frames=len(own.result), runs=own.runs, invalid=own.invalid)
        trial.reference.add(reference.seconds, runs=reference.runs)
        model = self.model
        for one in compare(reference.result, own.result, element=model.element_id, searches=model.searches):
            trial.comparisons.add(one)

    def _timed(self, batch: Batch, give: Callable[[Batch], PendingBatch]) -> _Timed:
        begun_ns = self._clock.monotonic_ns()
        pending = give(batch)
        result = pending.result()
        return _Timed(result, (self._clock.monotonic_ns() - begun_ns) / 1e9, pending.runs, pending.invalid)


@dataclass(frozen=True, slots=True, eq=False)
class _Timed:
    """The result of a batch, and how long it took."""

    result: Batch
    seconds: float
    runs: int
    invalid: int


def chosen_streams(streams: Collection[str], *, share: float) -> frozenset[str]:
    """Return the share of these streams, at least one, with the lowest checksums of their names: so that they stay the
    same, and only one that comes or goes makes another one change.
    """
    ordered: Sequence[str] = sorted(streams, key=lambda name: (crc32(name.encode()), name))
    return frozenset(ordered[: ceil(share * len(ordered))])
