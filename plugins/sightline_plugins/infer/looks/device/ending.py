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
from sightline_plugins.infer.looks.device.blocks import Part, arrays_in, new_block, views_in
from sightline_plugins.infer.looks.engine_looker import read_outputs
from sightline_plugins.infer.looks.look import Answered
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.infer.tasks.task import Task


class Outcome(Protocol):
    """What came back of one picture, in memory of its own."""

    def read(self, task: Task[Any], subject: Subject, batch: Batch) -> Answered:
        """See `Look.read`."""
        ...


class Tail(Protocol):
    """An ending for one number of pictures, in one set of buffers."""

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


class Room(Protocol):
    """One set of buffers, for any number of pictures up to the most."""

    @property
    def results_bytes(self) -> int:
        """How many bytes results have at most."""
        ...

    def tail(self, rows: int) -> Tail:
        """The ending for so many pictures."""
        ...


class Ending(Protocol):
    """What follows a model, on one stream."""

    def open(self) -> Room:
        """Memory for a set of buffers."""
        ...


def output_parts(specs: Sequence[TensorSpec], rows: int) -> list[Part]:
    """The outputs of a model for so many pictures."""
    sizes = [tuple(size for size in spec.shape[1:] if size is not None) for spec in specs]
    return [((rows, *own), spec.dtype) for own, spec in zip(sizes, specs, strict=True)]


class RawEnding:
    """All outputs come down, for tasks that read outputs: an `Ending`.

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

    def open(self) -> Room:
        """See `Ending.open`."""
        block = new_block(self._gpu, output_parts(self._outputs, self._most_rows), stream=self._stream)
        return _RawRoom(block, self._outputs, self._wanted)


@dataclass(frozen=True, slots=True, eq=False)
class _RawRoom:
    block: DeviceArray
    specs: Sequence[TensorSpec]
    wanted: Sequence[np.dtype[Any]]

    @property
    def results_bytes(self) -> int:
        return self.block.nbytes

    def tail(self, rows: int) -> Tail:
        parts = output_parts(self.specs, rows)
        outputs = arrays_in(self.block, parts)
        end = outputs[-1].base_address + outputs[-1].nbytes - self.block.base_address
        return _RawTail(outputs, self.block.rows(0, end), parts, self.wanted)


@dataclass(frozen=True, slots=True, eq=False)
class _RawTail:
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

    def read(self, task: Task[Any], subject: Subject, batch: Batch) -> Answered:
        """See `Look.read`."""
        return read_outputs(task, self.outputs, subject, batch)
