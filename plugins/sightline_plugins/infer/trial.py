"""A model on trial: what is counted of it, and the condition by which it fails.

Arrays and numbers in, a verdict out: it knows no engine, no frame and no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

from sightline.errors import SightlineError
from sightline.graph.operator import ModelComparison
from sightline.redaction import redact
from sightline_plugins.infer.comparison import Comparisons
from sightline_plugins.infer.trial_options import CanaryOptions, TrialLimits

_FEWEST_BATCHES = 8
"""Medians of fewer batches are not judged."""
_NOISE_SECONDS = 0.005
"""A model that is slower by less than this, for a run, is not too slow: a busy machine is as uneven."""


class TrialState(StrEnum):
    """How a model on trial is: `trial` while it has to prove itself, then `kept` or `rolled_back`."""

    TRIAL = "trial"
    KEPT = "kept"
    ROLLED_BACK = "rolled_back"


class FailureCause(StrEnum):
    """By which condition a model was rolled back; `reverted`: by another change, or by hand."""

    EXCEPTION = "exception"
    INVALID_OUTPUTS = "invalid_outputs"
    SLOWDOWN = "slowdown"
    LATENCY = "latency"
    DISAGREEMENT = "disagreement"
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a model has failed, in words and as a condition."""

    condition: FailureCause
    reason: str

    @classmethod
    def of_error(cls, error: Exception) -> Verdict:
        """Return that of an exception."""
        text = str(error) if isinstance(error, SightlineError) else f"{type(error).__name__}: {error}"
        return cls(FailureCause.EXCEPTION, redact(text))


class Timings:
    """How long a model took for its newest batches, and for a run in these, in seconds."""

    def __init__(self) -> None:
        self._batches: deque[float] = deque(maxlen=32)
        self._runs: deque[float] = deque(maxlen=32)

    def add(self, seconds: float, *, runs: int) -> None:
        """Add a batch with so many runs; none is no evidence."""
        if runs:
            self._batches.append(seconds)
            self._runs.append(seconds / runs)

    @property
    def of_a_batch(self) -> float | None:
        """The median; None when it is not known yet."""
        return median(self._batches) if len(self._batches) >= _FEWEST_BATCHES else None

    @property
    def of_a_run(self) -> float | None:
        """The median, with its share of the time of a batch; None when it is not known yet."""
        return median(self._runs) if len(self._runs) >= _FEWEST_BATCHES else None


@dataclass(slots=True, eq=False)
class Trial:
    """Counts what a model does, and judges it by its limits. For one thread at a time.

    `kind` is `swap`, `canary` or `shadow`; `dropped` are frames that a shadow had no time for. `reference` has the
    times of the other model, and `comparisons` how far both agreed on the newest frames that were compared.
    """

    kind: str
    model: str
    beside: str
    limits: TrialLimits
    reference: Timings
    timings: Timings = field(default_factory=Timings)
    state: TrialState = TrialState.TRIAL
    verdict: Verdict | None = None
    frames: int = 0
    runs: int = 0
    invalid: int = 0
    dropped: int = 0
    comparisons: Comparisons = field(default_factory=Comparisons)
    promoted: bool = False
    """Whether it has become the model of the step."""
    lacks: Callable[[], str] = str
    """Says what it has not proved yet; empty when that is nothing."""

    def add(self, seconds: float, *, frames: int, runs: int, invalid: int) -> None:
        """Count a batch of so many frames and its time; the outputs of `invalid` of `runs` runs were not finite."""
        self.timings.add(seconds, runs=runs)
        self.count(frames=frames, runs=runs, invalid=invalid)

    def count(self, *, frames: int, runs: int, invalid: int) -> None:
        """Count a batch."""
        self.frames += frames
        self.runs += runs
        self.invalid += invalid

    def judge(self) -> Verdict | None:
        """Return why it has failed, None as long as it has not."""
        limits = self.limits
        if self.invalid > limits.max_invalid * self.runs:
            text = f"the outputs of {self.invalid} of {self.runs} runs are not finite numbers"
            return Verdict(FailureCause.INVALID_OUTPUTS, f"{text} (max_invalid {limits.max_invalid:g})")
        return self._judge_results() or self._judge_times()

    def keep(self) -> None:
        """Note that it has proved itself."""
        self.state = TrialState.KEPT

    def roll_back(self, verdict: Verdict) -> None:
        """Note that it has failed."""
        self.state, self.verdict = TrialState.ROLLED_BACK, verdict

    def comparison(self) -> ModelComparison:
        """Return how it does, for the metrics."""
        return ModelComparison(
            self.kind,
            self.model,
            self.comparisons.frames,
            self.dropped,
            self.comparisons.disagreement,
            self.timings.of_a_run,
            self.reference.of_a_run,
        )

    def report(self) -> Mapping[str, Any]:
        """Return its part of the run report."""
        found: dict[str, Any] = {
            "trial": self.kind,
            "model": self.model,
            "beside": self.beside,
            "state": str(self.state),
            "frames": self.frames,
            "runs": self.runs,
            "invalid_outputs": self.invalid,
        }
        if self.dropped:
            found["dropped"] = self.dropped
        if self.promoted:
            found["promoted"] = True
        if self.state is TrialState.TRIAL and (lacks := self.lacks()):
            found["lacks"] = lacks
        for key, seconds in (("ms_per_run", self.timings.of_a_run), ("ms_per_run_beside", self.reference.of_a_run)):
            if seconds is not None:
                found[key] = round(seconds * 1000, 3)
        if self.comparisons.frames:
            found |= self.comparisons.report()
        if self.verdict is not None:
            found |= {"condition": str(self.verdict.condition), "reason": self.verdict.reason}
        return found

    def _judge_results(self) -> Verdict | None:
        limits, disagreement = self.limits, self.comparisons.disagreement
        if not isinstance(limits, CanaryOptions) or disagreement is None or disagreement <= limits.max_disagreement:
            return None
        text = f"{disagreement:.0%} of its results differ from those of {self.beside}"
        return Verdict(FailureCause.DISAGREEMENT, f"{text} (max_disagreement {limits.max_disagreement:g})")

    def _judge_times(self) -> Verdict | None:
        limits, batch = self.limits, self.timings.of_a_batch
        if batch is not None and limits.max_latency is not None and batch > limits.max_latency / 1e9:
            text = f"a batch takes {batch * 1000:.1f} ms"
            return Verdict(FailureCause.LATENCY, f"{text} (max_latency {limits.max_latency / 1e6:g} ms)")
        own, usual = self.timings.of_a_run, self.reference.of_a_run
        if own is None or usual is None or limits.max_slowdown is None:
            return None
        if own > limits.max_slowdown * usual and own - usual > _NOISE_SECONDS:
            text = f"a run takes {own * 1000:.1f} ms, {own / usual:.1f} times as long as with {self.beside}"
            return Verdict(FailureCause.SLOWDOWN, f"{text} (max_slowdown {limits.max_slowdown:g})")
        return None
