"""What is measured: a step with its model on one engine of a GPU, and that engine alone."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.graphs import Graph
from sightline.devices.cuda.streams import CudaStream
from sightline.errors import CudaError, CudaFailed, DeviceUnavailable, MissingExtra, ModelError
from sightline_plugins.commands.model_step import model_step
from sightline_plugins.commands.verify.command import plan_of
from sightline_plugins.engines.batch_sizes import ANY_BATCH, BatchRange, rounded_up
from sightline_plugins.engines.cache import ModelCache, models_folder
from sightline_plugins.engines.cuda_model import prepare_batches
from sightline_plugins.engines.onnxruntime_cuda import OnnxRuntimeCuda
from sightline_plugins.engines.protocol import CudaEngine, Precision, TensorSpec
from sightline_plugins.engines.tensorrt_model import open_tensorrt
from sightline_plugins.infer.cuda_predictor import WARM_UPS
from sightline_plugins.infer.options import DetectionElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.precision import find_quantized

EngineName: TypeAlias = Literal["tensorrt", "onnxruntime"]
ENGINES: tuple[EngineName, ...] = ("tensorrt", "onnxruntime")
REFUSALS = (ModelError, DeviceUnavailable, MissingExtra)
_QUEUED_AT_ONCE = 8
_MOST_AHEAD = 2
"""Portions of that which wait on the GPU: it never has nothing to do, and the queue does not grow."""


@dataclass(frozen=True, slots=True)
class BenchmarkCase:
    """A step that finds boxes, `max_detections` in an image at most; `element.engine` is the engine of the GPU."""

    gpu: CudaDevice
    element: DetectionElement
    plan: ModelPlan
    max_detections: int

    @property
    def engine_name(self) -> EngineName:
        """What computes."""
        return "tensorrt" if self.element.engine == "tensorrt" else "onnxruntime"

    def open(
        self, *, stream: CudaStream, precision: Precision | None = None, batches: BatchRange = ANY_BATCH
    ) -> CudaEngine:
        """The engine of the model, in the step's precision if it is not given. Raises one of `REFUSALS`."""
        model, precision = Path(self.element.model), precision or self._precision
        if precision == "int8":
            model = find_quantized(model).path
        preprocessing, gpu = self.plan.preprocessing, self.gpu
        size_wh, levels = preprocessing.size_wh, preprocessing.value_range
        if self.engine_name == "tensorrt":
            return open_tensorrt(
                model,
                gpu=gpu,
                stream=stream,
                precision=precision,
                size_wh=size_wh,
                batches=batches,
                input_range=levels,
            )
        assert size_wh is not None
        cache = ModelCache(models_folder(), warn=print)
        prepared = prepare_batches(model, size_wh=size_wh, precision=precision, input_range=levels, cache=cache)
        return OnnxRuntimeCuda(prepared, gpu=gpu, stream=stream, batches=batches)

    @property
    def _precision(self) -> Precision:
        """What the step says. Ends the program where it leaves that open."""
        wanted = self.element.wanted_precision
        if wanted == "auto":
            raise SystemExit("precision auto would compare one engine with another: give fp32, fp16 or int8")
        return wanted

    def rows_for(self, engine: CudaEngine, *, images: int) -> int:
        """In how many rows so many images are computed at once."""
        fixed = engine.inputs[self.plan.inputs.image].shape[0]
        return fixed or rounded_up(min(images, engine.most_rows), limit=engine.most_rows)


def subject_of(gpu: CudaDevice, model: Path, *, settings: tuple[str, ...], engine: str) -> BenchmarkCase:
    """The step for a model, on the engine that is asked for; `auto` is the first that takes it.

    Ends the program, with the reasons, where there is none.
    """
    element, _ = model_step(model, "detect", settings)
    plan, boxes = plan_of(element)
    assert isinstance(element, DetectionElement)
    assert boxes is not None
    if plan.preprocessing.size_wh is None:
        raise SystemExit(f"{model}: takes images of any size, give one: --set size=[640,384]")
    reasons = list[str]()
    for name in ENGINES:
        if engine not in ("auto", name):
            continue
        case = BenchmarkCase(gpu, element.model_copy(update={"engine": name}), plan, boxes.nms.max_detections)
        try:
            case.open(stream=gpu.stream("trying")).close()
        except REFUSALS as error:
            reasons.append(str(error))
            continue
        for reason in reasons:
            print(f"not used: {reason}")
        return case
    raise SystemExit(f"no engine of the GPU takes {model}: {'; '.join(reasons)}")


class EngineAlone:
    """A model's engine with nothing around it: random images that lie in the GPU's memory, and outputs nobody reads.

    As one CUDA graph where the engine allows that and `as_graph` is true, as pipelines run it.
    """

    def __init__(
        self, case: BenchmarkCase, engine: CudaEngine, *, rows: int, stream: CudaStream, as_graph: bool = True
    ) -> None:
        self.rows = rows
        self._stream = stream
        gpu, random = case.gpu, np.random.default_rng(0)
        extras = case.plan.inputs.extra_values(case.plan.preprocessing.size_wh or (0, 0))
        content = [
            _rows_of(spec, extras.get(place), rows=rows, levels=case.plan.preprocessing.value_range, random=random)
            for place, spec in enumerate(engine.inputs)
        ]
        rooms = [gpu.empty(array.shape, array.dtype, stream=stream) for array in content]
        inputs = gpu.upload_into(content, rooms, stream=stream)
        outputs = [gpu.empty(_shape(spec, rows), spec.dtype, stream=stream) for spec in engine.outputs]
        self._execution = engine.bind(inputs, outputs)
        for _ in range(WARM_UPS):
            self._execution.enqueue()
            stream.synchronize()
        self._graph = self._captured(gpu) if as_graph else None

    @property
    def is_graph(self) -> bool:
        """Whether it is a CUDA graph."""
        return self._graph is not None

    def queue(self) -> None:
        """Queue it once."""
        if self._graph is not None:
            self._graph.launch()
        else:
            self._execution.enqueue()

    def seconds(self) -> float:
        """How long the host waits for one run."""
        begun = perf_counter()
        self.queue()
        self._stream.record().wait()
        return perf_counter() - begun

    def images_per_second(self, seconds: float) -> float:
        """How many images it computes in a second, one run behind the other for so long."""
        marks, count, begun = deque[Any](), 0, perf_counter()
        while perf_counter() - begun < seconds:
            for _ in range(_QUEUED_AT_ONCE):
                self.queue()
            count += _QUEUED_AT_ONCE
            marks.append(self._stream.record())
            if len(marks) > _MOST_AHEAD:
                marks.popleft().wait()
        self._stream.synchronize()
        return count * self.rows / (perf_counter() - begun)

    def _captured(self, gpu: CudaDevice) -> Graph | None:
        if self._execution.not_capturable is not None:
            return None
        try:
            return gpu.capture(self._stream, self._execution.enqueue, name="engine alone", keep=self._execution)
        except CudaFailed:
            raise
        except CudaError:
            return None


def _shape(spec: TensorSpec, rows: int) -> tuple[int, ...]:
    return (rows, *(size for size in spec.shape[1:] if size is not None))


def _rows_of(
    spec: TensorSpec, values: Any, *, rows: int, levels: tuple[float, float], random: np.random.Generator
) -> npt.NDArray[Any]:
    """Noise for the image, what belongs there for another input."""
    if values is None:
        return random.uniform(*levels, _shape(spec, rows)).astype(spec.dtype)
    return np.tile(np.array(values, spec.dtype), (rows, 1))
