"""How many images a second are encoded by both ways, in turn, and what they cost."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter, thread_time

from benchmarks.gpu_decode import MOST_MICROSECONDS, Rate
from benchmarks.gpu_encode.videos import Alone, EncodingJob, Ours, Work
from benchmarks.gpu_models.figures import Figure, Goals, in_turn, print_table

GOAL = 0.95
_WARM_UPS = 8


@dataclass(slots=True)
class Gate:
    """Lets threads begin together, and tells them when it is enough."""

    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    is_open: threading.Event = field(default_factory=threading.Event)
    is_shut: threading.Event = field(default_factory=threading.Event)


def _encode(make: Callable[[], Work], gate: Gate) -> Rate:
    """Encode all the time; what is counted lies between the opening of the gate and its shutting."""
    work = make()
    try:
        for _ in range(_WARM_UPS):
            work.next()
        gate.arrived.release()
        while not gate.is_open.is_set():
            work.next()
        begun, used, count = perf_counter(), thread_time(), 0
        while not (count and gate.is_shut.is_set()):
            count += work.next()
        return Rate(count / (perf_counter() - begun), 1e6 * (thread_time() - used) / count)
    finally:
        work.close()


def measured(makers: Sequence[Callable[[], Work]], *, seconds: float) -> Rate:
    """Images a second of all together, and what one costs a thread; each works in a thread of its own."""
    gate = Gate()

    def ended(_: Future[Rate]) -> None:
        gate.arrived.release()

    with ThreadPoolExecutor(len(makers)) as threads:
        runs = [threads.submit(_encode, make, gate) for make in makers]
        for run in runs:
            run.add_done_callback(ended)
        for _ in runs:
            gate.arrived.acquire()
        gate.is_open.set()
        wait(runs, timeout=seconds, return_when=FIRST_EXCEPTION)
        gate.is_shut.set()
    rates = [run.result() for run in runs]
    return Rate(sum(rate.fps for rate in rates), sum(rate.microseconds for rate in rates) / len(rates))


class Rounds:
    """Both ways to encode so many videos, the processor time of each, and what ours copied between host and GPU."""

    def __init__(self, case: EncodingJob, *, videos: int, seconds: float) -> None:
        self._subject, self._videos, self._seconds = case, videos, seconds
        self.microseconds: dict[str, list[float]] = {"alone": [], "ours": []}
        self.copies = 0

    def alone(self) -> float:
        """Images a second by PyNvVideoCodec."""
        return self._noted("alone", measured([partial(Alone, self._subject)] * self._videos, seconds=self._seconds))

    def ours(self) -> float:
        """Images a second by the step."""
        before = self._crossed()
        with tempfile.TemporaryDirectory() as folder:
            make = partial(Ours, self._subject, Path(folder), videos=self._videos)
            rate = measured([make], seconds=self._seconds)
        self.copies += self._crossed() - before
        return self._noted("ours", rate)

    def _crossed(self) -> int:
        counts = self._subject.gpu.transfers.counts
        return counts.device_to_host_copies + counts.host_to_device_copies

    def _noted(self, name: str, rate: Rate) -> float:
        self.microseconds[name].append(rate.microseconds)
        return rate.fps


def measure(case: EncodingJob, *, videos: Sequence[int], rounds: int, seconds: float, goals: Goals) -> None:
    """Print the table, one row for each number of videos; what cannot be encoded at once is reported."""
    rows = []
    for count in videos:
        reason = case.reason_against(videos=count)
        if reason is not None:
            print(f"{count} videos at once are not measured: {reason}", flush=True)
            continue
        both = Rounds(case, videos=count, seconds=seconds)
        found = in_turn({"alone": both.alone, "ours": both.ours}, rounds=rounds)
        rows.append((count, *(found[name].text() for name in found), *_judged(found, both, videos=count, goals=goals)))
    head = ("videos", "alone, fps", "ours, fps", "ratio", "goal", "Python, µs an image", "goal", "copies", "goal")
    print_table(head, rows)


def _judged(found: dict[str, Figure], both: Rounds, *, videos: int, goals: Goals) -> tuple[str, ...]:
    ratio = found["ours"].over(found["alone"])
    spent = Figure(
        tuple(one - other for one, other in zip(both.microseconds["ours"], both.microseconds["alone"], strict=True))
    )
    return (
        ratio.text(3),
        goals.at_least(GOAL, ratio.median, what=f"{videos} videos against PyNvVideoCodec alone"),
        spent.text(),
        goals.at_most(MOST_MICROSECONDS, spent.median, what=f"{videos} videos: microseconds of Python for an image"),
        str(both.copies),
        goals.at_most(0, both.copies, what=f"{videos} videos: copies between host and GPU"),
    )
