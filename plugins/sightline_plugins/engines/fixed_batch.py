"""Run models of a fixed batch size on any number of inputs.

Images that are submitted one after the other share a call; when a result is asked for before a call is full, its last
image fills the rest. That is done only where the results are the same to the bit, whatever place an image has and
whatever lies beside it; else each image has a call of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.engines.protocol import Array, Engine, Pending, TensorSpec
from sightline_plugins.engines.rebatching import close
from sightline_plugins.engines.requests import check_inputs
from sightline_plugins.preprocess.definition import ImageForm


@dataclass(frozen=True, slots=True)
class HostForm:
    """What is done to the image, the input number `image`, before it goes to a model that takes `spec`.

    `first` says that the model's channels come first.
    """

    form: ImageForm
    image: int
    spec: TensorSpec
    first: bool

    @property
    def taken(self) -> TensorSpec:
        """The input as it is to be given: the form's layout and element type, batch 1."""
        rows, *sizes = self.spec.shape
        del rows
        channels, height, width = sizes if self.first else (sizes[2], *sizes[:2])
        if self.form.size_wh is not None:
            width, height = self.form.size_wh
        shape = (height, width, channels) if self.form.layout == "nhwc" else (channels, height, width)
        return replace(self.spec, shape=(1, *shape), dtype=np.dtype(self.form.dtype))

    def apply(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The inputs that the model takes."""
        seen = inputs[self.image]
        last = self.form.layout == "nhwc"
        if self.spec.dtype.kind == "f":
            mean, scale = (np.array(values, np.float32) for values in (self.form.mean, self.form.scale))
            shape = (-1,) if last else (-1, 1, 1)
            seen = (seen.astype(np.float32) - mean.reshape(shape)) * scale.reshape(shape)
        if last == self.first:
            seen = seen.transpose(0, 3, 1, 2) if last else seen.transpose(0, 2, 3, 1)
        made = np.ascontiguousarray(seen, self.spec.dtype)
        return tuple(made if place == self.image else array for place, array in enumerate(inputs))


def host_form(form: ImageForm, specs: Sequence[TensorSpec]) -> HostForm:
    """The form for the first input of rank 4 with 1, 3 or 4 channels. Raises ModelError when there is none."""
    for place, spec in enumerate(specs):
        for axis in (1, 3):
            if len(spec.shape) == 4 and spec.shape[axis] in (1, 3, 4):
                return HostForm(form, place, spec, first=axis == 1)
    found = "; ".join(map(str, specs))
    raise ModelError(f"no input takes an image (1 x channels x height x width, 1, 3 or 4 channels); found {found}")


_OPEN_SIZE = 128


class FixedBatchEngine:
    """An engine whose inputs and outputs have `rows` rows, one an image. Closing it closes `inner`.

    Raises ModelError when an output has another number of rows, or an image's answer depends on those beside it.
    """

    def __init__(self, inner: Engine, *, rows: int, label: str) -> None:
        self._inner = inner
        self._rows = rows
        self._label = label
        self.inputs = tuple(_one_row(spec, rows=rows, label=label) for spec in inner.inputs)
        self.outputs = tuple(_one_row(spec, rows=rows, label=label) for spec in inner.outputs)
        self._lock = threading.Lock()
        together = self._rows_are_independent()
        self._places = rows if together else 1
        self._open: _Call | None = None
        self._closed = False
        self.report = {**inner.report, "batch": f"fixed {rows}" if together else f"fixed {rows}, one image a call"}

    @property
    def name(self) -> str:
        """See `Engine.name`."""
        return self._inner.name

    @property
    def concurrency(self) -> int:
        """See `Engine.concurrency`."""
        return self._inner.concurrency * self._places

    def submit(self, inputs: Sequence[Array]) -> Pending:
        """See `Engine.submit`."""
        check_inputs(inputs, self.inputs, label=self._label)
        with self._lock:
            if self._closed:
                raise ModelError(f"{self._label}: the engine is closed")
            call = self._open
            if call is None or not call.takes(inputs):
                self._send(call)
                call = _Call([np.empty((self._rows, *array.shape[1:]), array.dtype) for array in inputs])
            self._open = call
            row = _Row(self, call, call.add(inputs))
            if call.count == self._places:
                self._send(call)
        return row

    def close(self) -> None:
        """See `Engine.close`."""
        with self._lock:
            if not self._closed:
                self._send(self._open)
            self._closed = True
        self._inner.close()

    def result_of(self, call: _Call, row: int) -> tuple[Array, ...]:
        """The outputs for the image at `row`; a call that is not full yet goes off now."""
        with self._lock:
            pending = self._send(call)
        return tuple(output[row : row + 1] for output in pending.result())

    def _send(self, call: _Call | None) -> Any:
        """Sends the call off unless it went already; the work it became."""
        if call is None:
            return None
        if call is self._open:
            self._open = None
        if call.pending is None:
            for array in call.inputs:
                array[call.count :] = array[call.count - 1]
            call.pending = self._inner.submit(call.inputs)
        return call.pending

    def _rows_are_independent(self) -> bool:
        """Whether place and company of an image leave its result the same to the bit."""
        generator = np.random.default_rng(0)
        first = [_random(spec, generator) for spec in self._inner.inputs]
        moved = [np.roll(array, 1, axis=0) for array in first]
        for array, spec in zip(moved, self._inner.inputs, strict=True):
            array[0] = _random(spec, generator)[0]
        before, after = (self._inner.submit(arrays).result() for arrays in (first, moved))
        pairs = [(one[:-1], other[1:]) for one, other in zip(before, after, strict=True)]
        if not all(close(one, other) for one, other in pairs):
            raise ModelError(
                f"{self._label}: takes {self._rows} images at once, and what it says of one depends on the others: "
                "export it with batch 1 or dynamic"
            )
        return all(np.array_equal(one, other, equal_nan=one.dtype.kind == "f") for one, other in pairs)


def one_by_one(inner: Engine, *, rows: int, label: str) -> Engine:
    """An engine that takes one image at a time, of one that takes `rows` a call: itself where that is one.

    Raises ModelError as `FixedBatchEngine` does; `inner` is closed then.
    """
    if rows == 1:
        return inner
    try:
        return FixedBatchEngine(inner, rows=rows, label=label)
    except ModelError:
        inner.close()
        raise


@dataclass(slots=True, eq=False)
class _Call:
    """Images that are computed together: `count` rows of `inputs` are theirs; `pending` once it was sent."""

    inputs: list[Array]
    count: int = 0
    pending: Pending | None = None

    def takes(self, inputs: Sequence[Array]) -> bool:
        """Whether the arrays have the shapes of those that are in it."""
        return all(own.shape[1:] == array.shape[1:] for own, array in zip(self.inputs, inputs, strict=True))

    def add(self, inputs: Sequence[Array]) -> int:
        """Copies an image in; its row."""
        for own, array in zip(self.inputs, inputs, strict=True):
            own[self.count] = array[0]
        self.count += 1
        return self.count - 1


@dataclass(frozen=True, slots=True)
class _Row:
    """One image of a call."""

    engine: FixedBatchEngine
    call: _Call
    row: int

    def result(self) -> tuple[Array, ...]:
        """See `Pending.result`."""
        return self.engine.result_of(self.call, self.row)


def _one_row(spec: TensorSpec, *, rows: int, label: str) -> TensorSpec:
    if spec.shape[:1] != (rows,):
        raise ModelError(
            f"{label}: takes {rows} images at once, but {spec} does not have {rows} rows, one an image: "
            "export it with batch 1 or dynamic"
        )
    return replace(spec, shape=(1, *spec.shape[1:]))


def _random(spec: TensorSpec, generator: np.random.Generator) -> Array:
    shape = [size or _OPEN_SIZE for size in spec.shape]
    if spec.dtype.kind in "iu":
        return generator.integers(0, 127, shape).astype(spec.dtype)
    return generator.random(shape).astype(spec.dtype)
