"""A model on trial: what is counted of it, and the condition by which it fails.

Arrays and numbers in, a verdict out: it knows no engine, no frame and no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

from sightline_plugins.infer.trial_options import TrialLimits

_FEWEST_BATCHES = 8
"""Medians of fewer batches are not judged."""
_NOISE_SECONDS = 0.005
"""A model that is slower by less than this, for a frame, is not too slow: a busy machine is as uneven."""


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
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a model has failed, in words and as a condition."""

    condition: FailureCause
    reason: str


class Timings:
    """How long a model took for its newest batches, and for a frame of these, in seconds."""

    def __init__(self) -> None:
        self._batches: deque[float] = deque(maxlen=32)
        self._frames: deque[float] = deque(maxlen=32)

    def add(self, seconds: float, *, frames: int) -> None:
        """Add a batch."""
        self._batches.append(seconds)
        self._frames.append(seconds / frames)

    @property
    def of_a_batch(self) -> float | None:
        """The median; None when it is not known yet."""
        return median(self._batches) if len(self._batches) >= _FEWEST_BATCHES else None

    @property
    def of_a_frame(self) -> float | None:
        """The median, with the share of the batch that a frame has; None when it is not known yet."""
        return median(self._frames) if len(self._frames) >= _FEWEST_BATCHES else None


@dataclass(slots=True, eq=False)
class Trial:
    """Counts what a model does, and judges it by its limits. For one thread at a time."""

    model: str
    before: str
    limits: TrialLimits
    timings: Timings = field(default_factory=Timings)
    state: TrialState = TrialState.TRIAL
    verdict: Verdict | None = None
    frames: int = 0
    runs: int = 0
    invalid: int = 0

    def add(self, seconds: float, *, frames: int, runs: int, invalid: int) -> None:
        """Count a batch of so many frames, with `invalid` of `runs` runs whose outputs were not finite."""
        self.timings.add(seconds, frames=frames)
        self.frames += frames
        self.runs += runs
        self.invalid += invalid

    def judge(self, reference: Timings) -> Verdict | None:
        """Return why it has failed, None as long as it has not; `reference` has the times of the former model."""
        limits = self.limits
        if self.invalid > limits.max_invalid * self.runs:
            text = f"the outputs of {self.invalid} of {self.runs} runs are not finite numbers"
            return Verdict(FailureCause.INVALID_OUTPUTS, f"{text} (max_invalid {limits.max_invalid:g})")
        batch, own, usual = self.timings.of_a_batch, self.timings.of_a_frame, reference.of_a_frame
        if batch is not None and limits.max_latency is not None and batch > limits.max_latency / 1e9:
            text = f"a batch takes {batch * 1000:.1f} ms"
            return Verdict(FailureCause.LATENCY, f"{text} (max_latency {limits.max_latency / 1e6:g} ms)")
        if own is None or usual is None or limits.max_slowdown is None:
            return None
        if own > limits.max_slowdown * usual and own - usual > _NOISE_SECONDS:
            text = f"a frame takes {own * 1000:.1f} ms, {own / usual:.1f} times as long as before"
            return Verdict(FailureCause.SLOWDOWN, f"{text} (max_slowdown {limits.max_slowdown:g})")
        return None

    def keep(self) -> None:
        """Note that it has proved itself."""
        self.state = TrialState.KEPT

    def roll_back(self, verdict: Verdict) -> None:
        """Note that it has failed."""
        self.state, self.verdict = TrialState.ROLLED_BACK, verdict

    def report(self) -> Mapping[str, Any]:
        """Return its part of the run report."""
        found: dict[str, Any] = {
            "model": self.model,
            "before": self.before,
            "state": str(self.state),
            "frames": self.frames,
            "runs": self.runs,
            "invalid_outputs": self.invalid,
        }
        own = self.timings.of_a_frame
        if own is not None:
            found["ms_per_frame"] = round(own * 1000, 3)
        if self.verdict is not None:
            found |= {"condition": str(self.verdict.condition), "reason": self.verdict.reason}
        return found
