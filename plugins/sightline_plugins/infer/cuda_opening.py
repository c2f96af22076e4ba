"""Open the predictor of an element in a run on a GPU: TensorRT, else ONNX Runtime with CUDA, else an engine on the CPU.

The report and a warning give the reason. Nothing falls back silently.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import DeviceUnavailable, MissingExtra, ModelError
from sightline.graph.messages import Message, MessageKind
from sightline.graph.operator import RunsOn
from sightline.graph.site import Site
from sightline_plugins.engines.address import address_of
from sightline_plugins.engines.batch_sizes import ANY_BATCH, BatchRange
from sightline_plugins.engines.kinds import on_cuda_memory
from sightline_plugins.engines.opening import EnginePreview
from sightline_plugins.infer.agreement import KnownVerdicts, PrecisionJudge
from sightline_plugins.infer.host_opening import HostOpening, choose_and_post
from sightline_plugins.infer.options import DetectionElement, ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor
from sightline_plugins.infer.precision import Candidate, Chosen, choose_model
from sightline_plugins.infer.precision_speeds import GpuSpeeds
from sightline_plugins.infer.requests import Predictor, UpgradingPredictor

if TYPE_CHECKING:
    from sightline.devices.cuda.streams import CudaStream
    from sightline_plugins.engines.protocol import CudaEngine
    from sightline_plugins.engines.tensorrt_model import TensorRtModel
    from sightline_plugins.infer.precision_speeds import OpenCandidate

_LOG = logging.getLogger("sightline.tensorrt")


class _NotMeasured(Exception):
    """`precision: auto` needs a measurement, which nobody is to wait for now."""


@dataclass(slots=True)
class CudaOpening:
    """Tries the engines in turn; `reasons` collects why those before the chosen one cannot run the model.

    With live streams a model that TensorRT has not compiled yet is served by the next engine meanwhile; with files the
    run begins when it is compiled, so that results do not depend on how long that takes. `stopped` is set when nobody
    waits for the compiler any more.
    """

    element: ModelElement
    plan: ModelPlan
    postprocessor: Postprocessor[Any]
    site: Site
    gpu: CudaDevice
    reasons: list[str] = field(default_factory=list)
    stopped: Event = field(default_factory=Event)

    def open(self) -> Predictor:
        """Return the predictor. Raises ModelError, and DeviceUnavailable or MissingExtra for a required engine."""
        reason = self._no_batches_reason()
        if reason is not None:
            self.reasons.append(reason)
            if self.element.engine == "tensorrt":
                raise DeviceUnavailable(f"engine tensorrt cannot run this model: {reason}")
            return self._one_by_one()
        if "tensorrt" in on_cuda_memory(self.element.engine):
            predictor = self._by_tensorrt()
            if predictor is not None:
                return predictor
        return self._without_tensorrt()

    def preview(self) -> tuple[EnginePreview, Chosen]:
        """Return the engine and the precision, as far as they are known without opening an engine of the GPU."""
        from sightline_plugins.engines.onnxruntime_cuda import OnnxRuntimeCuda, why_not
        from sightline_plugins.engines.tensorrt_library import library_for

        reason, where = self._no_batches_reason(), str(self.site.device)
        if reason is None and "tensorrt" in on_cuda_memory(self.element.engine):
            try:
                library = str(library_for(self.gpu))
                chosen = self._previewed(library)
                return EnginePreview(library, where, self._tensorrt_model(chosen).is_kept), chosen
            except (DeviceUnavailable, MissingExtra, ModelError) as error:
                self.reasons.append(str(error))
        if reason is None:
            reason = why_not(self.gpu)
            if reason is None:
                library = OnnxRuntimeCuda.library()
                return EnginePreview(library, where, None, "; ".join(self.reasons)), self._previewed(library)
        self.reasons.append(reason)
        preview, chosen = HostOpening(self.element, self.plan, self.site).preview()
        return replace(preview, reason="; ".join(self.reasons)), chosen

    def _no_batches_reason(self) -> str | None:
        """Return why the model cannot run on batches that stay on the GPU; None when it can."""
        plan, engine = self.plan, self.element.engine
        if not on_cuda_memory(engine):
            return f"engine {engine} takes images one by one"
        if address_of(self.element.model) is not None:
            return "the model is served elsewhere"
        if plan.stack is not None:
            return "it takes stacks of images"
        if plan.preprocessing.size_wh is None:
            return "it takes images of any size"
        return None

    def _by_tensorrt(self) -> Predictor | None:
        """Return a predictor with TensorRT, or one that upgrades to it; None, with a reason, where it cannot run."""
        from sightline_plugins.engines.tensorrt_library import library_for

        is_required = self.element.engine == "tensorrt"
        try:
            library = str(library_for(self.gpu))
            if is_required or not self.site.live:
                return self._compiled_predictor(self._choose(library, self._tensorrt_engine))
            chosen = self._settled(library)
            model = self._tensorrt_model(chosen or Chosen(self.element.model, "fp32"))
            if chosen is not None and model.is_kept:
                return self._compiled_predictor(self._choose(library, self._tensorrt_engine))
        except (DeviceUnavailable, MissingExtra, ModelError) as error:
            if is_required:
                raise
            self.reasons.append(str(error))
            return None
        return UpgradingPredictor(
            self._without_tensorrt(is_stand_in=True),
            make=lambda: self._compiled_predictor(self._choose(library, self._tensorrt_engine)),
            stop=self.stopped.set,
            ready=lambda: self._post(f"{model.label}: runs with TensorRT from now on"),
            warn=self.site.warn,
        )

    def _without_tensorrt(self, *, is_stand_in: bool = False) -> Predictor:
        """Return a predictor with ONNX Runtime on the GPU, or else with an engine on the CPU.

        One that `is_stand_in` serves at once: it measures nothing.
        """
        from sightline_plugins.engines.onnxruntime_cuda import OnnxRuntimeCuda, why_not

        reason = why_not(self.gpu)
        if reason is None:
            library = OnnxRuntimeCuda.library()
            try:
                if is_stand_in:
                    chosen = self._settled(library) or Chosen(self.element.model, "fp32")
                else:
                    chosen = self._choose(library, self._onnxruntime_engine)
                stream = self._stream()
                engine = self._onnxruntime_engine(chosen, stream)
                self._tell_of_operators(engine.report)
                details = {"no_tensorrt": "; ".join(self.reasons)} if self.reasons else {}
                return self._cuda_predictor(engine, stream, details={**chosen.report(), **details})
            except (DeviceUnavailable, ModelError) as error:
                reason = str(error)
        self.reasons.append(reason)
        return self._on_the_cpu()

    def _one_by_one(self) -> Predictor:
        """Return a predictor with an engine of single images, on the GPU where possible."""
        device = str(self.site.device)
        host = HostOpening(self.element, self.plan, self.site)
        try:
            predictor = host.predictor(device=device, place={"engine_runs_on": device})
        except DeviceUnavailable as error:
            self.reasons.append(str(error))
            return self._on_the_cpu()
        self._tell_of_operators(predictor.report)
        return predictor

    def _on_the_cpu(self) -> Predictor:
        reason = "; ".join(self.reasons)
        self.site.warn(f"the model runs on the CPU: {reason}")
        place = {"engine_runs_on": str(RunsOn("cpu", reason))}
        return HostOpening(self.element, self.plan, self.site).predictor(device="cpu", place=place)

    def _choose(self, library: str, open_candidate: OpenCandidate) -> Chosen:
        """Choose file and precision; compiles, measures and judges what is not known from an earlier start."""
        speeds, judge = self._measuring(library, open_candidate)
        return choose_and_post(self.element, speeds, judge, site=self.site)

    def _settled(self, library: str) -> Chosen | None:
        """Return the file and precision that `_choose` would, where it would measure nothing; else None."""
        speeds, judge = self._measuring(library, _not_now)
        try:
            return choose_model(self.element, speeds=speeds, judge=judge)
        except _NotMeasured:
            return None

    def _previewed(self, library: str) -> Chosen:
        speeds, judge = self._measuring(library, _not_now)
        try:
            return choose_model(self.element, speeds=speeds, judge=KnownVerdicts(judge))
        except _NotMeasured:
            return Chosen(self.element.model, "fp32", "measured when it runs")

    def _measuring(self, library: str, open_candidate: OpenCandidate) -> tuple[GpuSpeeds, PrecisionJudge]:
        speeds = GpuSpeeds(
            self.gpu,
            library=library,
            size_wh=self._size_wh,
            images=self._batches.usual,
            open_candidate=open_candidate,
            is_stopped=self.stopped.is_set,
        )

        def judged(candidate: Candidate, decoder: Postprocessor[object]) -> Predictor:
            stream = self.gpu.stream("judging")
            return self._cuda_predictor(open_candidate(candidate, stream), stream, details={}, decoder=decoder)

        computes, is_stopped = speeds.computes, self.stopped.is_set
        return speeds, PrecisionJudge(self.element, self.plan, self.site, computes, judged, is_stopped)

    def _tensorrt_model(self, chosen: Candidate | Chosen) -> TensorRtModel:
        from sightline_plugins.engines.tensorrt_model import TensorRtModel

        return TensorRtModel(
            chosen.model,
            gpu=self.gpu,
            precision=chosen.precision,
            size_wh=self._size_wh,
            batches=self._batches,
            input_range=self.plan.preprocessing.value_range,
            is_stopped=self.stopped.is_set,
            warn=self.site.warn,
        )

    def _tensorrt_engine(self, candidate: Candidate | Chosen, stream: CudaStream) -> CudaEngine:
        """Compile and load a model; progress becomes messages, the library's output goes to the log (`--verbose`)."""
        return self._tensorrt_model(candidate).load(stream=stream, progress=self._post, log=_log)

    def _compiled_predictor(self, chosen: Chosen) -> Predictor:
        stream = self._stream()
        return self._cuda_predictor(self._tensorrt_engine(chosen, stream), stream, details=chosen.report())

    def _onnxruntime_engine(self, candidate: Candidate | Chosen, stream: CudaStream) -> CudaEngine:
        from sightline_plugins.engines.cache import ModelCache, models_folder
        from sightline_plugins.engines.cuda_model import prepare_batches
        from sightline_plugins.engines.onnxruntime_cuda import OnnxRuntimeCuda

        prepared = prepare_batches(
            candidate.model,
            size_wh=self._size_wh,
            precision=candidate.precision,
            input_range=self.plan.preprocessing.value_range,
            cache=ModelCache(models_folder(), warn=self.site.warn),
        )
        return OnnxRuntimeCuda(prepared, gpu=self.gpu, stream=stream, batches=self._batches)

    def _cuda_predictor(
        self,
        engine: CudaEngine,
        stream: CudaStream,
        *,
        details: Mapping[str, str],
        decoder: Postprocessor[object] | None = None,
    ) -> Predictor:
        """Return the predictor with an open engine, which it closes, also where there is no memory for the rest.

        `decoder` reads the outputs instead of the element's postprocessor.
        """
        from sightline_plugins.infer.cuda_predictor import CudaPredictor

        reader = decoder or self.postprocessor
        try:
            return CudaPredictor(
                self.plan, engine=engine, postprocessor=reader, gpu=self.gpu, stream=stream, details=details
            )
        except BaseException:
            engine.close()
            raise

    def _tell_of_operators(self, report: Mapping[str, Any]) -> None:
        """Post which operators of a model on the GPU the CPU computes: tensors are copied to the host and back."""
        if "operators_on_cpu" in report:
            self._post(f"operators that ONNX Runtime computes on the CPU: {report['operators_on_cpu']}")

    def _stream(self) -> CudaStream:
        return self.gpu.stream(f"model of {self.site.element_id}")

    @property
    def _batches(self) -> BatchRange:
        """The batch sizes to compile for: tuned for the pipeline's, where a frame gives a fixed number of images."""
        element, frames = self.element, self.site.batch_size
        has_tiles = isinstance(element, DetectionElement) and element.tiles is not None
        is_open = has_tiles or isinstance(element.regions, Mapping) or element.selection(self.plan) is not None
        if frames is None or is_open:
            return ANY_BATCH
        return BatchRange.around(frames * len(element.regions_of("")))

    @property
    def _size_wh(self) -> tuple[int, int]:
        size_wh = self.plan.preprocessing.size_wh
        assert size_wh is not None
        return size_wh

    def _post(self, text: str) -> None:
        self.site.post(Message(MessageKind.MODEL, text, element=self.site.element_id))


def _not_now(candidate: Candidate, stream: CudaStream) -> CudaEngine:
    """Open nothing: an `OpenCandidate` for who does not wait."""
    del candidate, stream
    raise _NotMeasured


def _log(severity: str, text: str) -> None:
    _LOG.debug("%s: %s", severity, text)
