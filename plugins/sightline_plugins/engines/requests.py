"""Requests to an engine: queued, pooled, and collected in any thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import numpy as np

from sightline.errors import ModelError, SightlineError
from sightline_plugins.engines.libraries import About
from sightline_plugins.engines.protocol import Array, Pending, TensorSpec

_QUEUED = 2
"""Requests accepted beyond those that are computed at once, so that no core waits for the next image."""
Arrays = tuple[Array, ...]
Outputs = TypeVar("Outputs")


class Work(Generic[Outputs]):
    """Something under way: `wait` blocks until it is computed and gives the outputs; it is called exactly once.

    Whoever comes first, the collector or a submitter in need of a free request, waits; the other one finds the
    outputs ready. So a request can be used again before anybody read its result.
    """

    __slots__ = ("_error", "_lock", "_outputs", "_wait")

    def __init__(self, wait: Callable[[], Outputs]) -> None:
        self._lock = threading.Lock()
        self._wait: Callable[[], Outputs] | None = wait
        self._outputs: list[Outputs] = []
        self._error: SightlineError | None = None

    @property
    def finished(self) -> bool:
        """True when somebody has waited for it already."""
        return self._wait is None

    def finish(self) -> None:
        """Waits until the outputs, or the error, are there."""
        with self._lock:
            if self._wait is not None:
                self._error = ModelError("the computation was interrupted")
                try:
                    self._outputs = [self._wait()]
                    self._error = None
                except SightlineError as error:
                    self._error = error
                finally:
                    self._wait = None

    def result(self) -> Outputs:
        """The outputs, waited for when nobody has; any number of times. Raises what the computation failed with."""
        if self._wait is not None:
            self.finish()
        if self._error is not None:
            raise self._error
        return self._outputs[0]


class Requests:
    """The requests of one engine, from its first to its close: two more than are computed at once are under way.

    One thread submits; any thread may collect, or close.
    """

    def __init__(self, specs: Sequence[TensorSpec], *, concurrency: int, label: str) -> None:
        self.limit = concurrency + _QUEUED
        """How many are under way at most."""
        self._specs = specs
        self._label = label
        self._underway: deque[Work[Arrays]] = deque()
        self._lock = threading.Lock()
        self._is_closed = False

    def submit(self, inputs: Sequence[Array], *, start: Callable[[Arrays], Callable[[], Arrays]]) -> Work[Arrays]:
        """Let `start` begin the computation of one image, behind the oldest one where too many are under way.

        `start` returns what waits for its outputs. Raises ModelError for other inputs than the model takes, and when
        the engine is closed.
        """
        check_inputs(inputs, self._specs, label=self._label)
        with self._lock:
            if self._is_closed:
                raise ModelError(f"{self._label}: the engine is closed")
            self._make_room()
            work = Work(start(tuple(inputs)))
            self._underway.append(work)
        return work

    def close(self) -> bool:
        """Wait for all that are under way, and take no more; False when that was done before."""
        with self._lock:
            if self._is_closed:
                return False
            self._is_closed = True
            while self._underway:
                self._underway.popleft().finish()
        return True

    def _make_room(self) -> None:
        while self._underway and self._underway[0].finished:
            self._underway.popleft()
        if len(self._underway) >= self.limit:
            self._underway = deque(work for work in self._underway if not work.finished)
        while len(self._underway) >= self.limit:
            self._underway.popleft().finish()


def check_inputs(inputs: Sequence[Array], specs: Sequence[TensorSpec], *, label: str) -> None:
    """Raises `ModelError` unless count, element types, shapes and memory layout are what the model takes."""
    if len(inputs) != len(specs):
        expected = "; ".join(map(str, specs))
        raise ModelError(f"{label}: takes {len(specs)} input(s) ({expected}), {len(inputs)} given")
    for array, spec in zip(inputs, specs, strict=True):
        if array.dtype == spec.dtype and array.shape == spec.shape and array.flags.c_contiguous:
            continue
        fits = len(array.shape) == len(spec.shape) and all(
            wanted in (None, found) for wanted, found in zip(spec.shape, array.shape, strict=True)
        )
        if not fits or array.dtype != spec.dtype:
            found = ", ".join(map(str, array.shape))
            raise ModelError(f"{label}: input {spec} expected, {array.dtype.name} ({found}) given")
        if not array.flags.c_contiguous:
            raise ModelError(f"{label}: input {spec.name!r} is not C-contiguous; pass np.ascontiguousarray(...)")


def numpy_type(found: object, *, tensor: str, label: str) -> np.dtype[np.generic]:
    """The NumPy element type of that name; `ModelError` for types that NumPy lacks (bfloat16, int4, strings)."""
    try:
        dtype: np.dtype[np.generic] = np.dtype(found)  # type: ignore[call-overload]
    except TypeError:
        raise ModelError(f"{label}: tensor {tensor!r} has element type {found}, which is not supported") from None
    return dtype


class PooledEngine:
    """Calls `run` (releasing the GIL, raising ModelError) in as many threads as images are computed at once.

    `release` is called once, after all work, when the engine is closed.
    """

    def __init__(
        self,
        name: str,
        *,
        run: Callable[[Arrays], Arrays],
        release: Callable[[], None],
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        about: About,
        concurrency: int,
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.report: Mapping[str, Any] = about.report
        self.concurrency = concurrency
        self._run = run
        self._release = release
        self._workers = ThreadPoolExecutor(concurrency, thread_name_prefix=name)
        self._requests = Requests(inputs, concurrency=concurrency, label=about.label)

    def submit(self, inputs: Sequence[Array]) -> Pending:
        """See `Engine.submit`."""
        return self._requests.submit(inputs, start=lambda arrays: self._workers.submit(self._run, arrays).result)

    def close(self) -> None:
        """See `Engine.close`."""
        if self._requests.close():
            self._workers.shutdown(wait=True)
            self._release()
            del self._run, self._release
