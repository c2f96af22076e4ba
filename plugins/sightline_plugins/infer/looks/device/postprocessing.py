"""What follows a model on the GPU until its results are ready to be copied: nothing, or heads and suppression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.streams import GpuStream
from sightline.media import Batch
from sightline.media.device_array import DeviceArray
from sightline_plugins.infer.engines.protocol import Array, TensorSpec
from sightline_plugins.infer.looks.device.blocks import Part, arrays_in, new_block, up_to_end, views_in
from sightline_plugins.infer.looks.engine_predictor import read_outputs
from sightline_plugins.infer.looks.look import LookResult
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.infer.tasks.task import Task


class Outcome(Protocol):
    """What came back of one picture, in memory of its own."""

    def read(self, task: Task[Any], subject: Subject, batch: Batch) -> LookResult:
        """See `Look.read`."""
        ...


class PostprocessingStep(Protocol):
    """Post-processing of one number of pictures, in one set of buffers."""

    @property
    def outputs(self) -> Sequence[DeviceArray]:
        """Where the model writes."""
        ...

    @property
    def results(self) -> DeviceArray:
        """What is to be copied to the host, uint8 (bytes,)."""
        ...

    def queue(self) -> None:
        """Queue what makes the results of the outputs."""
        ...

    def read(self, content: npt.NDArray[np.uint8], *, count: int) -> list[Outcome]:
        """What a copy of the results says of the first `count` pictures; nothing of it refers to the copy."""
        ...


class OutputBuffers(Protocol):
    """One set of buffers, which the model writes to, for any number of pictures up to the most."""

    @property
    def results_bytes(self) -> int:
        """How many bytes results have at most."""
        ...

    def step(self, rows: int) -> PostprocessingStep:
        """What is done with so many pictures."""
        ...


class Postprocessor(Protocol):
    """What follows a model, on one stream."""

    def new_buffers(self) -> OutputBuffers:
        """A set of buffers."""
        ...


def output_parts(specs: Sequence[TensorSpec], rows: int) -> list[Part]:
    """The outputs of a model for so many pictures."""
    sizes = [tuple(size for size in spec.shape[1:] if size is not None) for spec in specs]
    return [((rows, *own), spec.dtype) for own, spec in zip(sizes, specs, strict=True)]


class RawPostprocessor:
    """All outputs come down, for tasks that read outputs: a `Postprocessor`.

    `outputs` are those of the engine, `wanted` the element types that heads expect, for `most_rows` pictures at most.
    """

    def __init__(
        self,
        gpu: Gpu,
        *,
        stream: GpuStream,
        outputs: Sequence[TensorSpec],
        wanted: Sequence[np.dtype[Any]],
        most_rows: int,
    ) -> None:
        self._gpu = gpu
        self._stream = stream
        self._outputs = outputs
        self._wanted = wanted
        self._most_rows = most_rows

    def new_buffers(self) -> OutputBuffers:
        """See `Postprocessor.new_buffers`."""
        block = new_block(self._gpu, output_parts(self._outputs, self._most_rows), stream=self._stream)
        return _RawBuffers(block, self._outputs, self._wanted)


@dataclass(frozen=True, slots=True, eq=False)
class _RawBuffers:
    block: DeviceArray
    specs: Sequence[TensorSpec]
    wanted: Sequence[np.dtype[Any]]

    @property
    def results_bytes(self) -> int:
        return self.block.nbytes

    def step(self, rows: int) -> PostprocessingStep:
        parts = output_parts(self.specs, rows)
        outputs = arrays_in(self.block, parts)
        return _RawStep(outputs, up_to_end(self.block, outputs), parts, self.wanted)


@dataclass(frozen=True, slots=True, eq=False)
class _RawStep:
    outputs: Sequence[DeviceArray]
    results: DeviceArray
    parts: Sequence[Part]
    wanted: Sequence[np.dtype[Any]]

    def queue(self) -> None:
        """The outputs are the results."""

    def read(self, content: npt.NDArray[np.uint8], *, count: int) -> list[Outcome]:
        views = views_in(content, self.parts)
        return [
            RawOutcome(tuple(view[row : row + 1].astype(dtype) for view, dtype in zip(views, self.wanted, strict=True)))
            for row in range(count)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class RawOutcome:
    """The outputs of one picture, as an engine of the host gives them."""

    outputs: tuple[Array, ...]

    def read(self, task: Task[Any], subject: Subject, batch: Batch) -> LookResult:
        """See `Look.read`."""
        return read_outputs(task, self.outputs, subject, batch)
