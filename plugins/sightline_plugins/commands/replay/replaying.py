"""Run a recorded run again: the same frames in the same batches through the same steps, without effects outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from sightline.config import description_from
from sightline.errors import ConfigurationError
from sightline.graph import Element, PipelineDescription
from sightline.graph.outputs import Outputs
from sightline.graph.references import SendsImages
from sightline.graph.registry import Registry
from sightline.media import Batch
from sightline.pipeline import Pipeline
from sightline.runtime.recording.digest import digests_of
from sightline.runtime.recording.file import Recording
from sightline.runtime.scheduling.order import BatchOrder

_STRUCTURES = ("tee", "parallel")


def description_of(
    recording: Recording,
    *,
    keeps_files: bool,
    overwrite: bool = False,
    device: str | None = None,
    outputs: Path | None = None,
) -> PipelineDescription:
    """Return the recorded pipeline with the streams of the recording, engines as they were chosen, and without what
    has effects outside: deliveries, servers, recordings. Steps that write files stay when they are kept.

    Raises ConfigurationError, with every mistake, when it cannot run here, or a step sends images to a server, whose
    answers are not recorded.
    """
    registry = Registry()
    plain = dict(recording.head.pipeline)
    plain["sources"] = {
        one.name: {"uri": str(recording.path.absolute()), "stream": one.name} for one in recording.streams
    }
    for key in ("sources_file", "keep_running", "outbox", "telemetry"):
        plain.pop(key, None)
    plain["state"] = False
    plain["device"] = device or plain.get("device", "auto")
    plain["overwrite"] = overwrite
    plain["pipeline"] = _kept(plain.get("pipeline", ()), registry, keeps_files=keeps_files)
    if not recording.streams:
        raise ConfigurationError(f"{recording.path} cannot be replayed: no frame was recorded")
    described = description_from(plain, outputs=Outputs(outputs), registry=registry)
    for element_id, engine in recording.head.engines.items():
        described = _with_engine(described, element_id, engine)
    return described


def order_of(recording: Recording) -> BatchOrder:
    """Return the order in which the frames entered the first step."""
    names = [one.name for one in recording.streams]
    return BatchOrder([[(names[row.stream], row.index) for row in batch.frames] for batch in recording.batches])


@dataclass(slots=True)
class Comparison:
    """What came out of a replay beside what was recorded. `different` are frames by stream and index, in the order in
    which they came out; `unknown` counts those of which the recording has no result.
    """

    recording: Recording
    frames: int = 0
    unknown: int = 0
    different: list[tuple[str, int]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def watch(self, pipeline: Pipeline) -> None:
        """Compare everything that comes out of a pipeline."""
        numbers = {one.name: number for number, one in enumerate(self.recording.streams)}

        def compare(batch: Batch, _: Sequence[int]) -> None:
            for frame, digest in zip(batch.frames, digests_of(batch), strict=True):
                known = self.recording.results.get((numbers[frame.stream.name], frame.index))
                with self._lock:
                    self.frames += 1
                    self.unknown += known is None
                    if known not in (None, digest):
                        self.different.append((frame.stream.name, frame.index))

        pipeline.on_batches(compare)

    @property
    def missing(self) -> int:
        """How many frames of the recording did not come out again."""
        return len(self.recording.results) - (self.frames - self.unknown)


def _kept(steps: Sequence[Any], registry: Registry, *, keeps_files: bool) -> list[Any]:
    """Return the steps that a replay has, as plain data."""
    kept: list[Any] = []
    for step in steps:
        name, options = (step, {}) if isinstance(step, str) else next(iter(step.items()))
        if name in _STRUCTURES:
            branches = {key: _kept(one, registry, keeps_files=keeps_files) for key, one in options.items()}
            kept.append({name: branches})
        elif issubclass(registry.element(name), SendsImages):
            text = (
                f"a run with {name} cannot be repeated: it would send images again, and what was answered is not "
                "recorded. Its streams can be the sources of a pipeline without it: {uri: run.slr, stream: NAME}"
            )
            raise ConfigurationError(text)
        elif not _is_left_out(registry.element(name), keeps_files=keeps_files):
            kept.append(step)
    return kept


def _is_left_out(element: type[Element], *, keeps_files: bool) -> bool:
    return element.delivers or element.takes_packets or (element.sink and not keeps_files)


def _with_engine(described: PipelineDescription, element_id: str, engine: Mapping[str, Any]) -> PipelineDescription:
    """Return a description in which a step computes in the precision that the run had chosen."""
    element = dict(described.elements()).get(element_id)
    precision = engine.get("precision")
    if element is None or precision is None or getattr(element, "precision", None) != "auto":
        return described
    return described.with_element(element_id, element.model_copy(update={"precision": precision}))
