"""Run a pipeline for hours and sample it, with cameras that fail on a schedule."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from sightline.errors import ConfigurationError, SightlineError
from sightline.graph import PipelineDescription, SourceElement
from sightline.graph.fields import is_url
from sightline.pipeline import Pipeline
from sightline.redaction import redact
from sightline.runtime.stats.report import Report
from sightline.testing import assert_accounted
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.script import Step
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.soak.samples import Judged, Sample, Sampler, judge
from sightline_plugins.sources.file.element import Media
from sightline_plugins.sources.live.rtsp import Rtsp

Fault = tuple[tuple[Mapping[str, object], float], ...]

FAULTS: tuple[Fault, ...] = (
    (({"kill": True}, 1.0),),
    (({"stall": True}, 8.0),),
    (({"loss": 0.1}, 4.0),),
    (({"corruption": 0.05}, 4.0),),
    (({"kill": True}, 0.3), ({"refuse": 503}, 2.0)),
    (({"kill": True}, 0.3), ({"garbage": True}, 2.0)),
    (({"jump": 3600.0}, 5.0),),
    (({"timestamps": "zero"}, 4.0),),
    (({"trickle": 2000.0}, 6.0),),
)
"""The faults of a camera: steps that begin together, each with its seconds."""
ROUNDS = 20
"""Faults of one camera before they repeat in the same order."""
_LONGEST_PART = 0.5


def fault_steps(number: int, *, cameras: int, every_seconds: float, seed: int) -> tuple[list[Step], float]:
    """The faults of one of several cameras, and after how many seconds they repeat.

    Every `every_seconds` there is a fault at one camera, in turns; it ends before the next one. The same seed gives the
    same faults.
    """
    chance = random.Random(f"{seed} {number}")
    period = every_seconds * cameras
    steps = []
    for turn in range(ROUNDS):
        at = (turn * cameras + number + 1) * every_seconds
        for what, seconds in chance.choice(FAULTS):
            steps.append(Step.model_validate({"at": at, "lasts": min(seconds, period * _LONGEST_PART), **what}))
    return steps, (ROUNDS + 1) * period


@contextmanager
def shown_by_cameras(
    description: PipelineDescription, *, every_seconds: float, seed: int, say: Callable[[str], None]
) -> Iterator[PipelineDescription]:
    """The pipeline with cameras instead of its files while the block is open; `say` is called with every fault.

    Raises ConfigurationError when no source is a file, StreamUnreadable when a camera cannot show one.
    """
    files = {
        name: source
        for name, source in description.sources.items()
        if isinstance(source, Media) and not is_url(source.uri)
    }
    if not files:
        raise ConfigurationError("--faults shows files as cameras, and no source of this pipeline is a file")
    with ExitStack() as stack:
        sources: dict[str, SourceElement] = dict(description.sources)
        for number, (name, media) in enumerate(files.items()):
            steps, repeat = fault_steps(number, cameras=len(files), every_seconds=every_seconds, seed=seed)
            camera = FakeCamera(
                {name: load_clip(media.uri, stream_number=media.stream_index)},
                script=steps,
                repeat_seconds=repeat,
                seed=seed,
                on_event=lambda text, name=name: say(f"{name}: {text}"),  # type: ignore[misc]
            )
            for mount in camera.mounts.values():  # make all payloads now: doing it later would look like growth
                for image in range(len(mount.clip.packets)):
                    mount.reel.payloads(image)
            stack.enter_context(camera)
            sources[name] = Rtsp(
                uri=camera.url, max_fps=media.max_fps, rotate=media.rotate, stall_timeout=media.stall_timeout
            )
        yield description.model_copy(update={"sources": sources})


_FINEST_SECONDS, _MINUTE_SECONDS, _SAMPLES = 0.25, 60.0, 60
_GLANCE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Soaked:
    """The result of a run. `wrong` has one line for every failed check."""

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


def interval_seconds(seconds: float) -> float:
    """The time between two samples: a minute, less for a run of less than an hour."""
    return min(_MINUTE_SECONDS, max(_FINEST_SECONDS, seconds / _SAMPLES))


def soak(
    pipeline: Pipeline, *, seconds: float, is_over: Callable[[], bool], sampled: Callable[[Sample], None]
) -> Soaked:
    """Run a pipeline for that time, or until `is_over`, and judge what grew. `sampled` is called with every sample.

    Raises ConfigurationError before anything runs; later errors are in the result.
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
