"""A run that is watched for what grows."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sightline.errors import SightlineError
from sightline.pipeline import Pipeline
from sightline.redaction import redact
from sightline.runtime.stats.report import Report
from sightline.testing import assert_accounted
from sightline_plugins.soak.samples import Sample, Sampler
from sightline_plugins.soak.verdict import Judged, judge

_FINEST_SECONDS, _MINUTE_SECONDS, _SAMPLES = 0.25, 60.0, 60
_GLANCE_SECONDS = 0.1
_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
_LARGE_BYTES = 1 << 17


@dataclass(frozen=True, slots=True)
class Soaked:
    """What a run came to. `wrong` has one line for everything that is not as it must be."""

    samples: tuple[Sample, ...]
    judged: tuple[Judged, ...]
    wrong: tuple[str, ...]
    report: Report | None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "wrong": list(self.wrong),
            "judged": [{**asdict(one), "grew": one.grew} for one in self.judged],
            "samples": [asdict(one) for one in self.samples],
            "report": None if self.report is None else self.report.to_json(),
        }


def keep_one_heap() -> None:
    """Let glibc keep one heap for all threads, and images outside of it: heaps have holes that look like growth, and
    come and go. Harmless elsewhere. To be called before threads are started.
    """
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def interval_seconds(seconds: float) -> float:
    """The time between two samples: a minute, less for a run of less than an hour."""
    return min(_MINUTE_SECONDS, max(_FINEST_SECONDS, seconds / _SAMPLES))


def soak(
    pipeline: Pipeline, *, seconds: float, is_over: Callable[[], bool], sampled: Callable[[Sample], None]
) -> Soaked:
    """Run a pipeline for so many seconds, or until `is_over`, and judge what grew. `sampled` hears every sample.

    Raises ConfigurationError before anything runs; what goes wrong afterwards is in the result.
    """
    pipeline.start()
    samples: list[Sample] = []
    wrong: list[str] = []
    try:
        for sample in _samples(pipeline, seconds=seconds, is_over=is_over):
            samples.append(sample)
            sampled(sample)
    except OSError as error:  # perhaps no more files can be opened
        wrong.append(f"no more samples could be taken after {len(samples)}: {error.strerror}")
    if not _is_running(pipeline) and not is_over():
        wrong.append("the pipeline came to its end before its time")
    pipeline.stop()
    try:
        pipeline.wait()
    except SightlineError as error:
        wrong.append(redact(error))
    judged: tuple[Judged, ...] = ()
    try:
        judged = judge(samples)
    except ValueError as error:
        wrong.append(str(error))
    wrong += [
        f"{one.what} grew by {one.growth:.3g} {one.unit} ({one.slope_an_hour:.3g} an hour); "
        f"less than {one.allowed:.3g} is allowed"
        for one in judged
        if one.grew
    ]
    return Soaked(tuple(samples), judged, (*wrong, *_wrong_with(pipeline.report)), pipeline.report)


def _samples(pipeline: Pipeline, *, seconds: float, is_over: Callable[[], bool]) -> Iterator[Sample]:
    sampler, pause, interval = Sampler(), threading.Event(), interval_seconds(seconds)
    begin = time.monotonic()
    due = begin + interval
    while due <= begin + seconds + _GLANCE_SECONDS:
        while (left := due - time.monotonic()) > 0:
            if is_over() or not _is_running(pipeline):
                return
            pause.wait(min(left, _GLANCE_SECONDS))
        due += interval
        if (view := pipeline.view()) is not None:
            yield sampler.sample(view)


def _is_running(pipeline: Pipeline) -> bool:
    view = pipeline.view()
    return view is not None and view.is_running


def _wrong_with(report: Report | None) -> Iterator[str]:
    if report is None:
        return
    yield from (f"stream {name!r} failed" for name in report.failed_streams)
    if report.frames == 0:
        yield "no frame went all the way"
    try:
        assert_accounted(report, stopped=True)
    except AssertionError as error:
        yield str(error)
