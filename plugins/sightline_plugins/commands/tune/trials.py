"""Run a pipeline on a clip with one setting of its detector after another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sightline.errors import ConfigurationError
from sightline.graph import Element, PipelineDescription, SourceElement
from sightline.graph.element import Capability
from sightline.graph.fields import matching
from sightline.media import Batch
from sightline.pipeline import Pipeline
from sightline_plugins.commands.evaluate.annotations import Annotations
from sightline_plugins.infer.adaptive.budget import SECOND_NS, Budget
from sightline_plugins.infer.detect import Detect
from sightline_plugins.track.track import Track

Every: TypeAlias = "int | str"
INTERVALS = (2, 3, 4, 6, 8)
LOSSES = (0.01, 0.02, 0.03, 0.05)
NEVER = 10_000


@dataclass(frozen=True, slots=True)
class Setting:
    """How often a detector runs: an interval, or `auto` with the loss that its budget allows."""

    every: int | None
    max_loss: float | None = None

    def __str__(self) -> str:
        return f"every: {self.every}" if self.max_loss is None else f"every: auto, max_loss: {self.max_loss:g}"

    def applied(self, detect: Detect) -> Detect:
        """Return the step with this setting; whatever else its budget says stays."""
        if self.max_loss is None:
            plain = detect.model_copy(update={"every": self.every, "budget": None})
            plain.model_fields_set.discard("budget")
            return plain
        budget = (detect.budget or Budget()).model_copy(update={"max_loss": self.max_loss})
        return detect.model_copy(update={"every": "auto", "budget": budget})


EVERY_FRAME, NO_FRAME = Setting(1), Setting(NEVER)


def candidates(detect: Detect) -> Iterator[Setting]:
    """Yield the settings that are tried."""
    yield from map(Setting, INTERVALS)
    if detect.frames is None:
        for max_loss in LOSSES:
            yield Setting(None, max_loss)


@dataclass(frozen=True, slots=True)
class Trial:
    """What is run: a pipeline that reads a clip as one stream and writes nothing, its detector, and the tracker that
    follows it, by their ids.
    """

    description: PipelineDescription
    detect_id: str
    track_id: str

    @property
    def detect(self) -> Detect:
        """The detector as configured."""
        found = self.description.element(self.detect_id)
        assert isinstance(found, Detect)
        return found

    def pipeline(self, setting: Setting, *, outputs: Path) -> Pipeline:
        """Return a pipeline with a setting. Raises ConfigurationError when it cannot be run."""
        described = self.description.with_element(self.detect_id, setting.applied(self.detect))
        return Pipeline.from_description(described, outputs=outputs)


def trial_of(description: PipelineDescription, *, stream: str, clip: SourceElement, step: str | None) -> Trial:
    """Return the pipeline in which the clip is the only source, as one of its streams; steps for others are left out,
    and so is what has effects outside: files, deliveries, recordings.

    Raises ConfigurationError where there is no detector of whole frames with a `track` behind it, or several and none
    is named.
    """
    elements = [one for one in description.elements() if matching(one[1].streams, (stream,))]
    detectors = [one for one, element in elements if isinstance(element, Detect) and element.on is None]
    if step is not None and step not in detectors:
        known = ", ".join(detectors) or "there is none"
        raise ConfigurationError(f"--step: {step!r} does not detect on whole frames of {stream!r}: {known}")
    if step is None and len(detectors) != 1:
        many = f"name one with --step: {', '.join(detectors)}" if detectors else "there is nothing to tune"
        raise ConfigurationError(f"{len(detectors)} steps detect on whole frames of {stream!r}: {many}")
    detect_id = step or detectors[0]
    behind = elements[[one for one, _ in elements].index(detect_id) + 1 :]
    track_id = next((one for one, element in behind if isinstance(element, Track)), None)
    if track_id is None:
        raise ConfigurationError(
            f"no track step is behind {detect_id}: frames that are not detected would have no objects. Add `- track`"
        )
    quiet = {"sources": {stream: clip}, "sources_file": None, "state": False, "telemetry": None}
    kept = description.model_copy(update=quiet)
    for one in (detect_id, track_id):  # ids are counted, and stay what they are when others are left out
        kept = kept.with_element(one, kept.element(one).model_copy(update={"id": one}))
    wanted = {one for one, element in elements if not (element.sink or element.delivers or element.takes_packets)}
    for one, _ in reversed(list(description.elements())):
        if one not in wanted:
            kept = kept.without_element(one)
    return Trial(kept, detect_id, track_id)


@dataclass(slots=True)
class Measured:
    """What came of a run, filled while it runs: tracks, CPU time of this process and detected frames behind the first
    batch, so that loading a model does not count; and the counts of rules when it has ended.
    """

    setting: Setting
    frames: int = 0
    detected: int = 0
    counts: Mapping[str, Any] = field(default_factory=dict)
    _tables: list[Annotations] = field(default_factory=list)
    _warm_frames: int = 0
    _begin: float = 0.0
    _end: float = 0.0
    _first_ns: int = 0
    _last_ns: int = 0

    def watch(self, pipeline: Pipeline, trial: Trial) -> None:
        """Note what leaves the tracker of a pipeline that is about to run."""
        pipeline.probe(trial.track_id, self._note)

    def finish(self, pipeline: Pipeline) -> None:
        """Take the counts of a pipeline that has ended."""
        totals = {} if pipeline.report is None else pipeline.report.totals
        rules = (one for one, element in pipeline.description.elements() if _counts(element))
        self.counts = {one: _whole_numbers(totals[one]) for one in rules if one in totals}

    @property
    def milliseconds(self) -> float:
        """CPU milliseconds a frame; not a number where the clip has too few frames."""
        frames = self.frames - self._warm_frames
        return 1000 * (self._end - self._begin) / frames if frames > 0 else float("nan")

    @property
    def share(self) -> float:
        """Share of the frames that were detected."""
        return self.detected / max(1, self.frames)

    @property
    def fps(self) -> float:
        """Frames a second of the clip."""
        seconds = (self._last_ns - self._first_ns) / SECOND_NS
        return (self.frames - 1) / seconds if seconds > 0 else 25.0

    @property
    def tracks(self) -> Annotations:
        """The tracked boxes of all frames."""
        return Annotations.from_rows(
            frame=np.concatenate([np.empty(0), *(one.frame for one in self._tables)]),
            xyxy=np.concatenate([np.empty((0, 4)), *(one.xyxy for one in self._tables)]),
            confidence=np.concatenate([np.empty(0), *(one.confidence for one in self._tables)]),
            label=np.concatenate([np.empty(0, np.str_), *(one.label for one in self._tables)]),
            identity=np.concatenate([np.empty(0), *(one.identity for one in self._tables)]),
        )

    def _note(self, batch: Batch) -> None:
        self._end = time.process_time()
        if not self.frames:
            self._begin, self._warm_frames, self._first_ns = self._end, len(batch), batch.frames[0].pts_ns
        objects, detected = batch.objects, batch.columns.detected
        numbers = np.array([frame.index for frame in batch.frames])
        tracked = objects.track_id >= 0
        count = int(np.count_nonzero(tracked))
        self._tables.append(
            Annotations.from_rows(
                frame=numbers[objects.frame[tracked]],
                xyxy=objects.xyxy[tracked],
                confidence=objects.confidence[tracked],
                label=np.full(count, "object"),
                identity=objects.track_id[tracked],
            )
        )
        self.frames += len(batch)
        self.detected += sum(detected) if detected else len(batch)
        self._last_ns = batch.frames[-1].pts_ns


def _whole_numbers(totals: object) -> Any:
    """Return the counts in nested totals: whole numbers; times and means are left out, which differ by a frame."""
    if isinstance(totals, Mapping):
        parts = ((str(key), _whole_numbers(value)) for key, value in totals.items())
        return {key: value for key, value in parts if value is not None}
    return totals if isinstance(totals, int) and not isinstance(totals, bool) else None


def _counts(element: Element) -> bool:
    """Whether the whole numbers in a step's totals are counts of a rule."""
    return Capability.EVENTS in element.gives and not isinstance(element, Track)
