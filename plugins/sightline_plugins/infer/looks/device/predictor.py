"""Looks on a GPU: batches go through two sets of buffers, so that one is prepared while the other is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.streams import GpuStream
from sightline.errors import ModelError
from sightline.media import Batch
from sightline_plugins.infer.engines.device.protocol import DeviceEngine
from sightline_plugins.infer.engines.requests import Work
from sightline_plugins.infer.looks.device.blocks import size_of
from sightline_plugins.infer.looks.device.box_postprocessing import BoxPostprocessor, plan_boxes_of
from sightline_plugins.infer.looks.device.inputs import InputBuffers
from sightline_plugins.infer.looks.device.postprocessing import Outcome, Postprocessor, RawPostprocessor, output_parts
from sightline_plugins.infer.looks.device.slot import Slot
from sightline_plugins.infer.looks.look import Look, LookResult, Seen
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.infer.tasks.task import Task

_NOTHING: Mapping[str, str] = MappingProxyType({})
_SLOTS = 2
_MOST_OUTPUT_BYTES = 1 << 27
"""Of a batch, so that models whose outputs are as large as pictures do not fill the memory."""


class DevicePredictor:
    """A `Predictor` whose pictures, model, heads and suppression stay on the GPU; results come down in one copy a
    batch.

    Pictures go in batches of 1, 2, 4, 8 ... up to what the engine takes; each size is a CUDA graph after some launches,
    where the engine allows it. Heads without kernels read on the host what comes down of the outputs. `told` is
    more for the report.
    """

    def __init__(
        self,
        plan: ModelPlan,
        *,
        engine: DeviceEngine,
        task: Task[Any],
        gpu: Gpu,
        stream: GpuStream,
        told: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.device = str(gpu)
        self._engine = engine
        self._is_fixed = engine.inputs[plan.inputs.picture].shape[0] is not None
        self._most_rows = engine.most_rows if self._is_fixed else _rows_that_fit(engine)
        self.most_unread = 2 * _SLOTS * self._most_rows
        postprocessor, self._heads = _postprocessor(
            plan, engine=engine, task=task, most_rows=self._most_rows, gpu=gpu, stream=stream
        )
        self._slots = [
            Slot(
                engine,
                inputs=InputBuffers(plan, inputs=engine.inputs, most_rows=self._most_rows, gpu=gpu, stream=stream),
                postprocessor=postprocessor,
                gpu=gpu,
                stream=stream,
            )
            for _ in range(_SLOTS)
        ]
        self._turn = 0
        self._told = told
        self._last_report: Mapping[str, Any] = _NOTHING

    @property
    def report(self) -> Mapping[str, Any]:
        """What computes, where boxes are decoded, which batches are graphs, and why others are not."""
        if not self._slots:
            return self._last_report
        passes = [one for slot in self._slots for one in slot.passes]
        told: dict[str, Any] = {
            **self._engine.report,
            "engine_runs_on": self.device,
            "heads_run_on": self._heads,
            **self._told,
        }
        if captured := sorted({one.rows for one in passes if one.is_graph}):
            told["graphs"] = captured
        if reasons := sorted({one.plainly for one in passes if one.plainly is not None}):
            told["no_graphs"] = "; ".join(reasons)
        return told

    def look_all(self, seen: Sequence[Seen]) -> Iterator[Look | None]:
        """See `Predictor.look_all`."""
        parts = [(surface, subject.placement) for surface, subject in seen]
        most = self._most_rows
        for first in range(0, len(parts), most):
            portion = parts[first : first + most]
            self._turn = (self._turn + 1) % _SLOTS
            work = self._slots[self._turn].start(portion, rows=self._rows_for(len(portion)))
            yield from (DeviceLook(work, row) for row in range(len(portion)))

    def close(self) -> None:
        """See `Predictor.close`. Memory goes back now, whoever holds this object."""
        for slot in self._slots:
            slot.finish()
        self._last_report = self.report
        self._slots.clear()
        self._engine.close()

    def _rows_for(self, count: int) -> int:
        return self._most_rows if self._is_fixed else min(1 << (count - 1).bit_length(), self._most_rows)


class DeviceLook:
    """A `Look` at one picture of a batch."""

    __slots__ = ("_row", "_work")

    def __init__(self, work: Work[list[Outcome]], row: int) -> None:
        self._work = work
        self._row = row

    def wait(self) -> None:
        """See `Look.wait`."""
        self._work.result()

    def read(self, task: Task[Any], subject: Subject, batch: Batch) -> LookResult:
        """See `Look.read`."""
        return self._work.result()[self._row].read(task, subject, batch)


def _rows_that_fit(engine: DeviceEngine) -> int:
    """The largest power of two of pictures, as far as the engine takes them, whose outputs are not too large."""
    size = size_of(output_parts(engine.outputs, 1))
    fitting = max(min(_MOST_OUTPUT_BYTES // size, engine.most_rows), 1)
    return 1 << (fitting.bit_length() - 1)


def _postprocessor(
    plan: ModelPlan, *, engine: DeviceEngine, task: Task[Any], most_rows: int, gpu: Gpu, stream: GpuStream
) -> tuple[Postprocessor, str]:
    """What follows the model, and where its heads run, for the report."""
    outputs = engine.outputs
    reason = "the step reads the model's outputs"
    if task.box_rules is not None:
        try:
            decoding = plan_boxes_of(plan, task.box_rules, outputs=outputs)
        except ModelError as error:
            reason = str(error)
        else:
            rules = task.box_rules
            boxes = BoxPostprocessor(
                gpu, stream=stream, decoding=decoding, rules=rules, outputs=outputs, most_rows=most_rows
            )
            return boxes, str(gpu)
    wanted = [output.dtype for output in plan.outputs]
    raw = RawPostprocessor(gpu, stream=stream, outputs=outputs, wanted=wanted, most_rows=most_rows)
    return raw, f"cpu ({reason})"
