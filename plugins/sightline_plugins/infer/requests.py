"""Inference requests: pre-processing and engine behind one interface, the predictor.

`engine_predictor.py` shows one image at a time to an engine that takes arrays of the host, `device/predictor.py`
batches to an engine on a GPU, from where only what was found comes back.
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
from sightline_plugins.infer.detections import all_finite
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.pixels.placement import Placement
from sightline_plugins.pixels.preprocess import Prepared, Preprocessor
from sightline_plugins.pixels.stacks import Stack, stack_input

Seen: TypeAlias = tuple[Surface, InferenceTarget]
"""A subject whose image is needed, and the surface that shows it."""


@dataclass(frozen=True, slots=True)
class InferenceResult:
    """What a task read in the outputs of a look, None for outputs that are no numbers to be used; and whether all of
    them were finite numbers.
    """

    answer: Any
    is_finite: bool


class InferenceRequest(Protocol):
    """One look of a model at a subject, under way. Any thread waits for it, and then reads it, once."""

    def wait(self) -> None:
        """Wait, without the GIL, until the outputs are there. Raises ModelError or GpuError when it failed."""
        ...

    def read(self, task: Postprocessor[Any], target: InferenceTarget, batch: Batch) -> InferenceResult:
        """Let the task read the outputs, which are there; nobody else may use the task meanwhile."""
        ...


class Predictor(Protocol):
    """Shows parts of images to a model. One thread asks for looks, that or another one reads them."""

    @property
    def device(self) -> str:
        """Where images are prepared: `cpu` or `cuda:N`."""
        ...

    @property
    def report(self) -> Mapping[str, Any]:
        """What the run report says of it: what computes where, and why there."""
        ...

    @property
    def max_pending(self) -> int:
        """How many looks may wait to be read; with more, memory grows."""
        ...

    def submit(self, seen: Sequence[Seen]) -> Iterator[InferenceRequest | None]:
        """The looks at these subjects, in their order, each begun when it is asked for at the latest; None where the
        image was only taken for later (`Subject.stack`).
        """
        ...

    def close(self) -> None:
        """Wait for what is under way, and free the model. May be called again. Looks may still be read."""
        ...


_UNREAD = 32


class HostPredictor:
    """A `Predictor`: each image is prepared when it is asked for, and submitted. `place` says for the report where
    the engine computes, and why there.
    """

    def __init__(
        self, plan: ModelPlan, *, preprocessor: Preprocessor, engine: Engine, place: Mapping[str, str]
    ) -> None:
        self.device = preprocessor.device
        self.report: Mapping[str, Any] = MappingProxyType({**engine.report, **place})
        self.max_pending = max(_UNREAD, 4 * engine.concurrency)
        self._plan = plan
        self._preprocessor = preprocessor
        self._engine = engine

    def submit(self, seen: Sequence[Seen]) -> Iterator[InferenceRequest | None]:
        """See `Predictor.submit`."""
        images = self._preprocessor.prepare_all([(surface, target.placement) for surface, target in seen])
        for prepared, (_, target) in zip(images, seen, strict=True):
            if target.stack is None:
                yield HostRequest(self._submit(prepared.image, prepared.placement), prepared, self._preprocessor)
                continue
            self._take(target.stack, prepared)
            yield HostRequest(self._submit_stack(target.stack, target)) if target.due else None

    def close(self) -> None:
        """See `Predictor.close`."""
        self._engine.close()

    def _submit_stack(self, stack: Stack, target: InferenceTarget) -> Pending:
        form = self._plan.stack
        assert form is not None
        images = [one.image for one in stack.images]
        dtype = self._engine.inputs[self._plan.inputs.image].dtype
        stacked = stack_input(images, form=form, preprocessing=self._plan.preprocessing, dtype=dtype)
        return self._submit(stacked, target.placement)

    def _submit(self, image: Array, placement: Placement) -> Pending:
        inputs: list[Array] = [image]
        for place, values in self._plan.inputs.extra_values(placement.size_wh).items():
            inputs.insert(place, np.array([values], self._engine.inputs[place].dtype))
        return self._engine.submit(inputs)

    def _take(self, stack: Stack, prepared: Prepared) -> None:
        """Put a subject's image on its stack, and use the memory of the one that goes again."""
        gone = stack.add(prepared)
        if gone is not None:
            self._preprocessor.recycle(gone)


class HostRequest:
    """A `Look` under way; the image that was prepared for it alone is used again when its outputs are there."""

    __slots__ = ("_outputs", "_pending", "_prepared", "_preprocessor")

    def __init__(
        self, pending: Pending, prepared: Prepared | None = None, preprocessor: Preprocessor | None = None
    ) -> None:
        self._pending = pending
        self._prepared = prepared
        self._preprocessor = preprocessor
        self._outputs: tuple[Array, ...] = ()

    def wait(self) -> None:
        """See `Look.wait`."""
        self._outputs = self._pending.result()
        if self._prepared is not None and self._preprocessor is not None:
            self._preprocessor.recycle(self._prepared)

    def read(self, task: Postprocessor[Any], target: InferenceTarget, batch: Batch) -> InferenceResult:
        """See `Look.read`."""
        return read_outputs(task, self._outputs, target, batch)


def read_outputs(
    task: Postprocessor[Any], outputs: Sequence[Array], target: InferenceTarget, batch: Batch
) -> InferenceResult:
    """What a task reads in outputs; nothing in those that are not all finite numbers and seem to hold nothing."""
    is_finite = all_finite(outputs)
    answer = task.read(outputs, target, batch)
    if not is_finite and answer is not None and task.is_empty(answer):
        answer = None
    return InferenceResult(answer, is_finite)


class UpgradingPredictor:
    """A `Predictor` that is `serving` until `make` has returned a better one, in a thread of this class.

    What `make` raises is told to `warn`, and the first one serves on. `stop` lets `make` end soon.
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
        self._looks = 0
        self._told: dict[str, Any] = {"served_before": serving.report.get("engine")}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compiling a model")
        self._made: Future[Predictor] | None = self._thread.submit(make)

    @property
    def device(self) -> str:
        """See `Predictor.device`."""
        return self._serving.device

    @property
    def report(self) -> Mapping[str, Any]:
        """That of the one which serves now, and how many looks the first one served."""
        return {**self._serving.report, **self._told, "looks_before": self._looks}

    @property
    def max_pending(self) -> int:
        """See `Predictor.max_pending`."""
        return self._serving.max_pending

    def submit(self, seen: Sequence[Seen]) -> Iterator[InferenceRequest | None]:
        """See `Predictor.submit`."""
        made = self._made
        if made is not None and made.done():
            self._made = None
            self._thread.shutdown()
            self._change(made)
        if self._made is not None:
            self._looks += len(seen)
        return self._serving.submit(seen)

    def wait_for_making(self, limit_seconds: float) -> bool:
        """Wait until the better one is made, or cannot be; whether that is so."""
        return self._made is None or not wait([self._made], timeout=limit_seconds).not_done

    def close(self) -> None:
        """See `Predictor.close`; lets the making end."""
        made, self._made = self._made, None
        if made is not None:
            self._stop()
            self._thread.shutdown()
            if made.exception() is None:
                made.result().close()
        self._serving.close()

    def _change(self, made: Future[Predictor]) -> None:
        """Let the better one serve. What the first one has under way is finished, and can still be read."""
        try:
            better = made.result()
        except SightlineError as error:
            self._warn(f"it goes on with {self._told['served_before']}: {error}")
            return
        self._serving.close()
        self._serving = better
        self._ready()
