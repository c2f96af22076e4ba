"""CPU time of one thread by stage."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

from benchmarks.pipelines.job import Outcome


class Laps:
    """CPU nanoseconds of the thread that made it, by stage."""

    def __init__(self) -> None:
        self._ns: Counter[str] = Counter()
        self._last_ns = time.thread_time_ns()

    def add(self, stage: str) -> None:
        """Count what this thread computed since the last call to a stage."""
        now_ns = time.thread_time_ns()
        self._ns[stage] += now_ns - self._last_ns
        self._last_ns = now_ns

    def outcome(self, outcome: Outcome) -> Outcome:
        """The outcome with the seconds of each stage; `engine` is what other threads of the process computed."""
        seconds = {stage: ns / 1e9 for stage, ns in self._ns.items()}
        return replace(outcome, details={**seconds, "engine": outcome.cpu_seconds - sum(seconds.values())})
