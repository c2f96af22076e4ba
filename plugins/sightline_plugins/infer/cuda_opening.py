"""Open a predictor on a GPU: TensorRT, else ONNX Runtime, else an engine on the CPU."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.streams import GpuStream
from sightline.errors import DeviceUnavailable, MissingExtra, ModelError
from sightline.graph.messages import Message, MessageKind
from sightline.graph.site import Site
from sightline_plugins.engines.address import ModelSource, address_of
from sightline_plugins.engines.cache import ModelCache, models_folder
from sightline_plugins.engines.cuda_model import prepare_batches
from sightline_plugins.engines.onnxruntime_cuda import OnnxRuntimeCuda
from sightline_plugins.engines.onnxruntime_cuda import why_not as why_not_onnxruntime
from sightline_plugins.engines.protocol import CudaEngine, Precision
from sightline_plugins.engines.tensorrt_library import library_for
from sightline_plugins.engines.tensorrt_model import TensorRtModel
from sightline_plugins.infer.cuda_predictor import CudaPredictor
from sightline_plugins.infer.opening import choose_and_tell, open_cpu_predictor, open_engine_predictor
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor
from sightline_plugins.infer.precision import Candidate, Chosen
from sightline_plugins.infer.precision_speeds import GpuSpeeds, OpenCandidate
from sightline_plugins.infer.requests import Predictor, UpgradingPredictor

_LOG = logging.getLogger("sightline.tensorrt")


def open_cuda_predictor(
    element: ModelElement, plan: ModelPlan, *, postprocessor: Postprocessor[Any], site: Site, gpu: Gpu
) -> Predictor:
    """The predictor of a step in a run on a GPU: TensorRT where it is there and takes the model, else ONNX Runtime on
    the GPU, else an engine of the CPU.

    With live streams a model that TensorRT has not compiled yet is served by the next one meanwhile; with files the
    run begins when it is compiled, so that results do not depend on how long that takes.
    Raises ConfigurationError or ModelError for an engine that was asked for by name, and cannot be had.
    """
    return _Opening(element, plan, postprocessor, site, gpu).open()


@dataclass(slots=True)
class _Opening:
    """Tries the engines in turn. `reasons` says why those before the one that was taken were not."""

    element: ModelElement
    plan: ModelPlan
    postprocessor: Postprocessor[Any]
    site: Site
    gpu: Gpu
    reasons: list[str] = field(default_factory=list)

    def open(self) -> Predictor:
        """See `open_cuda_predictor`."""
        reason = self._why_not_in_batches()
        if reason is not None:
            self.reasons.append(reason)
            if self.element.engine == "tensorrt":
                raise DeviceUnavailable(f"engine tensorrt cannot compute this model: {reason}")
            return self._one_by_one()
        if self.element.engine in ("auto", "tensorrt"):
            predictor = self._by_tensorrt()
            if predictor is not None:
                return predictor
        return self._served()

    def _why_not_in_batches(self) -> str | None:
        plan, engine = self.plan, self.element.engine
        if engine not in ("auto", "tensorrt", "onnxruntime"):
            return f"engine {engine} takes images one by one"
        if address_of(self.element.model) is not None:
            return "the model is served elsewhere"
        if plan.stack is not None:
            return "it takes stacks of images"
        if plan.preprocessing.size_wh is None:
            return "it takes images of any size"
        return None

    def _by_tensorrt(self) -> Predictor | None:
        """TensorRT's, or one that becomes it; None, and a reason told, where it cannot be had."""
        is_wanted = self.element.engine == "tensorrt"
        try:
            speeds = self._speeds(str(library_for(self.gpu)), self._tensorrt_engine)
            chosen = choose_and_tell(self.element, speeds, site=self.site)
            model = self._tensorrt_model(chosen.model, chosen.precision)
            if is_wanted or model.is_kept or not self.site.live:
                return self._loaded(model, chosen)
        except (DeviceUnavailable, MissingExtra, ModelError) as error:
            if is_wanted:
                raise
            self.reasons.append(str(error))
            return None
        return UpgradingPredictor(
            self._served(),
            make=lambda: self._loaded(model, chosen),
            stop=model.stop,
            ready=lambda: self._tell(f"{model.label}: TensorRT computes it from now on"),
            warn=self.site.warn,
        )

    def _loaded(self, model: TensorRtModel, chosen: Chosen) -> Predictor:
        stream = self._stream()
        return self._predictor(self._compiled(model, stream), stream, told=chosen.report())

    def _tensorrt_engine(self, candidate: Candidate, stream: GpuStream) -> CudaEngine:
        return self._compiled(self._tensorrt_model(candidate.model, candidate.precision), stream)

    def _compiled(self, model: TensorRtModel, stream: GpuStream) -> CudaEngine:
        """How far compiling is becomes messages; all that the library says stands in the log (`--verbose`)."""
        return model.load(stream=stream, progress=self._tell, log=_noted)

    def _tensorrt_model(self, model: ModelSource, precision: Precision) -> TensorRtModel:
        preprocessing = self.plan.preprocessing
        return TensorRtModel(
            model,
            gpu=self.gpu,
            precision=precision,
            size_wh=preprocessing.size_wh,
            input_range=preprocessing.value_range,
            warn=self.site.warn,
        )

    def _served(self) -> Predictor:
        """By ONNX Runtime, on the GPU where it can be."""
        reason = why_not_onnxruntime(self.gpu)
        if reason is None:
            try:
                return self._by_onnxruntime()
            except (DeviceUnavailable, ModelError) as error:
                reason = str(error)
        self.reasons.append(reason)
        return self._on_the_cpu()

    def _by_onnxruntime(self) -> Predictor:
        speeds = self._speeds(OnnxRuntimeCuda.library(), self._onnxruntime_engine)
        chosen = choose_and_tell(self.element, speeds, site=self.site)
        stream = self._stream()
        engine = self._opened_by_onnxruntime(chosen.model, chosen.precision, stream)
        told = {"no_tensorrt": "; ".join(self.reasons)} if self.reasons else {}
        return self._predictor(engine, stream, told={**chosen.report(), **told})

    def _onnxruntime_engine(self, candidate: Candidate, stream: GpuStream) -> CudaEngine:
        return self._opened_by_onnxruntime(candidate.model, candidate.precision, stream)

    def _opened_by_onnxruntime(self, model: ModelSource, precision: Precision, stream: GpuStream) -> CudaEngine:
        prepared = prepare_batches(
            model,
            size_wh=self._size_wh,
            precision=precision,
            input_range=self.plan.preprocessing.value_range,
            cache=ModelCache(models_folder(), warn=self.site.warn),
        )
        return OnnxRuntimeCuda(prepared, gpu=self.gpu, stream=stream)

    def _predictor(self, engine: CudaEngine, stream: GpuStream, *, told: Mapping[str, str]) -> Predictor:
        return CudaPredictor(
            self.plan, engine=engine, postprocessor=self.postprocessor, gpu=self.gpu, stream=stream, details=told
        )

    def _stream(self) -> GpuStream:
        return self.gpu.stream(f"model of {self.site.element_id}")

    def _speeds(self, library: str, open_candidate: OpenCandidate) -> GpuSpeeds:
        return GpuSpeeds(self.gpu, library=library, size_wh=self._size_wh, open_candidate=open_candidate)

    @property
    def _size_wh(self) -> tuple[int, int]:
        size_wh = self.plan.preprocessing.size_wh
        assert size_wh is not None
        return size_wh

    def _one_by_one(self) -> Predictor:
        """By an engine of single images, on the GPU where it can be."""
        try:
            return open_engine_predictor(self.element, self.plan, site=self.site)
        except DeviceUnavailable as error:
            self.reasons.append(str(error))
        return self._on_the_cpu()

    def _on_the_cpu(self) -> Predictor:
        return open_cpu_predictor(self.element, self.plan, reason="; ".join(self.reasons), site=self.site)

    def _tell(self, text: str) -> None:
        self.site.post(Message(MessageKind.MODEL, text, element=self.site.element_id))


def _noted(severity: str, text: str) -> None:
    _LOG.debug("%s: %s", severity, text)
