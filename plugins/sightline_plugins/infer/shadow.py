"""A shadow: a second model that runs on a sample of the frames, beside the work, and touches no results."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Lock

from sightline.graph.site import Site
from sightline.media import Batch
from sightline_plugins.infer.comparison import compare
from sightline_plugins.infer.open_model import OpenModel
from sightline_plugins.infer.trial import Timings, Trial, TrialState, Verdict
from sightline_plugins.infer.trial_options import ShadowOptions, TrialLimits

_LIMITS = TrialLimits(max_slowdown=None, max_invalid=1.0)
"""A shadow does no harm, so it only ends by an exception."""


class Shadow:
    """Compares a model with the one that serves, in a thread of its own, on one sample at a time.

    `offer` never waits: a sample that comes while another one is computed, or while the thread rests so that it keeps
    to its share of the time, is dropped and counted.
    """

    def __init__(self, options: ShadowOptions, model: OpenModel, *, beside: OpenModel, site: Site) -> None:
        self.options = options
        self.model = model
        self.trial = Trial("shadow", str(model), str(beside), _LIMITS, Timings())
        self._clock = site.clock
        self._warn = site.warn
        self._offering = Lock()
        self._seen: Counter[str] = Counter()
        self._rests_until_ns = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="comparing a model")
        self._sample: Future[None] | None = None

    @property
    def runs(self) -> bool:
        """Whether it has not failed."""
        return self.trial.state is not TrialState.ROLLED_BACK

    def has_failed(self, options: ShadowOptions) -> bool:
        """Whether it has failed with these options, so that it is not opened again."""
        return not self.runs and self.options == options

    def offer(self, given: Batch, result: Batch, *, beside: Timings) -> Batch:
        """Take a sample of the frames of a batch, with what the model that serves made of it; return that result, whose
        surfaces are shared from now on where the sample holds them.
        """
        with self._offering:
            return self._offer(given, result, beside)

    def close(self, *, with_model: bool) -> None:
        """Wait for the sample that is computed, and close the model."""
        self._thread.shutdown()
        if with_model:
            self.model.operator.close()

    def _offer(self, given: Batch, result: Batch, beside: Timings) -> Batch:
        rows = self._due(result) if self.runs else []
        if not rows:
            return result
        is_busy = self._sample is not None and not self._sample.done()
        if is_busy or self._clock.monotonic_ns() < self._rests_until_ns:
            self.trial.dropped += len(rows)
            return result
        result = result.shared()
        before = replace(given.select_frames(rows), frames=tuple(result.frames[row] for row in rows))
        self.trial.reference = beside
        self._sample = self._thread.submit(self._compare, before, result.select_frames(rows))
        return result

    def _due(self, result: Batch) -> list[int]:
        """Return the rows of every n-th frame of each stream, of those that the model that serves has looked at."""
        searched = result.columns.searched_by
        due = []
        for row, frame in enumerate(result.frames):
            if self.model.searches and not (searched and self.model.element_id in searched[row]):
                continue
            if self._seen[frame.stream.name] % self.options.every == 0:
                due.append(row)
            self._seen[frame.stream.name] += 1
        return due

    def _compare(self, given: Batch, result: Batch) -> None:
        begun_ns, trial, operator = self._clock.monotonic_ns(), self.trial, self.model.apart()
        try:
            assert operator is not None, "stacks are refused by the check"
            pending = operator.process(given)
            found = pending.result()
        except Exception as error:  # noqa: BLE001  nobody waits for it; it is reported
            verdict = Verdict.of_error(error)
            trial.roll_back(verdict)
            self._warn(f"the shadow {self.model} has failed, and is not asked again: {verdict.reason}")
            return
        seconds = (self._clock.monotonic_ns() - begun_ns) / 1e9
        trial.add(seconds, frames=len(given), runs=pending.runs, invalid=pending.invalid)
        for one in compare(result, found, element=self.model.element_id, searches=self.model.searches):
            trial.comparisons.add(one)
        now_ns = self._clock.monotonic_ns()
        self._rests_until_ns = now_ns + round((now_ns - begun_ns) * (1 / self.options.max_load - 1))
