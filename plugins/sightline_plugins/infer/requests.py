"""Inference requests: pre-processing and engine behind one interface, the predictor.

`HostPredictor` (here) submits one image at a time to an engine that takes host arrays; `CudaPredictor`
(`cuda_predictor.py`) submits batches that stay on the GPU, from where only results are copied back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np

from sightline.errors import SightlineError
from sightline.media import Batch, Surface
from sightline_plugins.engines.protocol import Array, Engine, Pending
from sightline_plugins.infer.facts import ModelInputs
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor, all_finite
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.preprocess.definition import Prepared, Preprocessor
from sightline_plugins.preprocess.placement import Placement
from sightline_plugins.preprocess.stacks import Stack, stack_input

RequestInput: TypeAlias = tuple[Surface, InferenceTarget]
"""A target whose image is needed, and the surface that shows it."""

_MAX_PENDING = 32


@dataclass(frozen=True, slots=True)
class InferenceResult:
    """The result for one target, None for unusable outputs, and whether all of the outputs were finite."""

    result: Any
    is_finite: bool


class InferenceRequest(Protocol):
    """One run of a model on one target. Any thread waits for it, and then reads it, once."""

    def wait(self) -> None:
        """Wait, without the GIL, until the outputs are there. Raises ModelError or CudaError when the run failed."""

    def read(self, postprocessor: Postprocessor[Any], target: InferenceTarget, batch: Batch) -> InferenceResult:
        """Let the postprocessor read the outputs, after `wait`; no other thread may use it meanwhile."""


class Predictor(Protocol):
    """Runs a model on parts of frames. One thread submits requests, that or another one reads them."""

    @property
    def device(self) -> str:
        """Where images are prepared: `cpu` or `cuda:N`."""

    @property
    def report(self) -> Mapping[str, Any]:
        """Its part of the run report: what computes where, and the reason."""

    @property
    def max_pending(self) -> int:
        """How many requests may wait to be read; more of them take more memory."""

    def submit(self, inputs: Sequence[RequestInput]) -> Iterator[InferenceRequest | None]:
        """Return the requests for these targets, in order; None where the image only went to the target's stack.

        A request may start only when the iterator reaches it.
        """

    def close(self) -> None:
        """Wait for requests under way, and free the model. May be called again. Requests can still be read."""


class HostPredictor:
    """A `Predictor` that prepares an image when the iterator reaches it, and submits it to an engine on host arrays.

    `place` is added to the report: the device of the engine, and the reason.
    """

    def __init__(
        self, plan: ModelPlan, *, preprocessor: Preprocessor, engine: Engine, place: Mapping[str, str]
    ) -> None:
        self.device = preprocessor.device
        self.report: Mapping[str, Any] = MappingProxyType({**engine.report, **place})
        self.max_pending = max(_MAX_PENDING, 4 * engine.concurrency)
        self._plan = plan
        self._preprocessor = preprocessor
        self._engine = engine

    def submit(self, inputs: Sequence[RequestInput]) -> Iterator[InferenceRequest | None]:
        images = self._preprocessor.prepare_all([(surface, target.placement) for surface, target in inputs])
        for prepared, (_, target) in zip(images, inputs, strict=True):
            if target.stack is None:
                yield HostRequest(self._submit(prepared.image, prepared.placement), prepared, self._preprocessor)
                continue
            oldest = target.stack.add(prepared)
            if oldest is not None:
                self._preprocessor.recycle(oldest)
            yield HostRequest(self._submit_stack(target.stack, target)) if target.due else None

    def close(self) -> None:
        self._engine.close()

    def _submit_stack(self, stack: Stack, target: InferenceTarget) -> Pending:
        form = self._plan.stack
        assert form is not None
        images = [prepared.image for prepared in stack.images]
        dtype = self._engine.inputs[self._plan.inputs.image].dtype
        stacked = stack_input(images, form=form, preprocessing=self._plan.preprocessing, dtype=dtype)
        return self._submit(stacked, target.placement)

    def _submit(self, image: Array, placement: Placement) -> Pending:
        return self._engine.submit(engine_inputs(self._engine, self._plan.inputs, image, size_wh=placement.size_wh))


def engine_inputs(engine: Engine, inputs: ModelInputs, image: Array, *, size_wh: tuple[int, int]) -> list[Array]:
    """Return the arrays of all inputs, in order, for an image that fills `size_wh` of the network's input."""
    arrays: list[Array] = [image]
    for place, values in inputs.extra_values(size_wh).items():
        arrays.insert(place, np.array([values], engine.inputs[place].dtype))
    return arrays


@dataclass(slots=True, eq=False)
class HostRequest:
    """An `InferenceRequest`. The memory of an image that was prepared for it alone is recycled when the outputs are
    read, so that the engine finds that image and its outputs free together.
    """

    pending: Pending | None
    prepared: Prepared | None = None
    preprocessor: Preprocessor | None = None
    outputs: tuple[Array, ...] = ()

    def wait(self) -> None:
        assert self.pending is not None, "it has been read"
        self.outputs = self.pending.result()

    def read(self, postprocessor: Postprocessor[Any], target: InferenceTarget, batch: Batch) -> InferenceResult:
        result = read_outputs(postprocessor, self.outputs, target, batch)
        self.outputs, self.pending = (), None
        if self.prepared is not None and self.preprocessor is not None:
            self.preprocessor.recycle(self.prepared)
        return result


def read_outputs(
    postprocessor: Postprocessor[Any], outputs: Sequence[Array], target: InferenceTarget, batch: Batch
) -> InferenceResult:
    """Return what a postprocessor reads; nothing in outputs that are not finite and seem to hold nothing."""
    is_finite = all_finite(outputs)
    result = postprocessor.read(outputs, target, batch)
    if not is_finite and result is not None and postprocessor.is_empty(result):
        result = None
    return InferenceResult(result, is_finite)


class UpgradingPredictor:
    """A `Predictor` that is `serving` until `make`, in a thread of this class, has returned a faster one.

    The faster one replaces it between two batches. After an error of `make`, which is passed to `warn`, the first one
    stays. `stop` makes `make` end early.
    """

    def __init__(
        self,
        serving: Predictor,
        *,
        make: Callable[[], Predictor],
        stop: Callable[[], None],
        ready: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self._serving = serving
        self._stop = stop
        self._ready = ready
        self._warn = warn
        self._runs_before = 0
        self._served_before = serving.report.get("engine")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compiling a model")
        self._making: Future[Predictor] | None = self._thread.submit(make)

    @property
    def device(self) -> str:
        return self._serving.device

    @property
    def report(self) -> Mapping[str, Any]:
        """Its report, and what served before, for how many runs."""
        return {**self._serving.report, "served_before": self._served_before, "runs_before": self._runs_before}

    @property
    def max_pending(self) -> int:
        return self._serving.max_pending

    def submit(self, inputs: Sequence[RequestInput]) -> Iterator[InferenceRequest | None]:
        if self._making is not None and self._making.done():
            made, self._making = self._making, None
            self._thread.shutdown()
            self._upgrade(made)
        if self._making is not None:
            self._runs_before += len(inputs)
        return self._serving.submit(inputs)

    def wait_for_making(self, limit_seconds: float) -> bool:
        """Wait until `make` has ended; return whether it has."""
        return self._making is None or not wait([self._making], timeout=limit_seconds).not_done

    def close(self) -> None:
        """See `Predictor.close`; also ends `make`."""
        made, self._making = self._making, None
        if made is not None:
            self._stop()
            self._thread.shutdown()
            if made.exception() is None:
                made.result().close()
        self._serving.close()

    def _upgrade(self, made: Future[Predictor]) -> None:
        """Let the faster one serve. Requests of the first one are finished, and can still be read."""
        try:
            faster = made.result()
        except SightlineError as error:
            self._warn(f"continuing with {self._served_before}: {error}")
            return
        self._serving.close()
        self._serving = faster
        self._ready()
