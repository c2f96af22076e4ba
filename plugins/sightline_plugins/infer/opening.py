"""Open the predictor of an element: which engine runs its model, from which file, in which precision, and where.

In a run on the CPU that is OpenVINO, ONNX Runtime or Triton. In a run on a GPU it is TensorRT, else ONNX Runtime with
CUDA, else an engine on the CPU; the report and a warning give the reason. Nothing falls back silently.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sightline.errors import DeviceUnavailable, MissingExtra, ModelError
from sightline.graph.messages import Message, MessageKind
from sightline.graph.operator import RunsOn
from sightline.graph.site import Site
from sightline_plugins.engines.address import address_of
from sightline_plugins.engines.batch_sizes import ANY_BATCH, BatchRange
from sightline_plugins.engines.kinds import ENGINES, on_cuda_memory
from sightline_plugins.engines.opening import EnginePreview, open_engine
from sightline_plugins.engines.opening import preview_engine as engine_of
from sightline_plugins.engines.protocol import Precision
from sightline_plugins.infer.agreement import BfloatJudge
from sightline_plugins.infer.options import DetectionElement, ModelElement
from sightline_plugins.infer.options import Precision as PrecisionOption
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor
from sightline_plugins.infer.precision import Candidate, Chosen, Judge, Speeds, choose_model
from sightline_plugins.infer.precision_speeds import CpuSpeeds, GpuSpeeds
from sightline_plugins.infer.requests import HostPredictor, Predictor, UpgradingPredictor
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.definition import Preprocessing, Preprocessor

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice
    from sightline.devices.cuda.streams import CudaStream
    from sightline_plugins.engines.protocol import CudaEngine
    from sightline_plugins.engines.tensorrt_model import TensorRtModel
    from sightline_plugins.infer.precision_speeds import OpenCandidate

_LOG = logging.getLogger("sightline.tensorrt")


def open_predictor(
    element: ModelElement, plan: ModelPlan, *, postprocessor: Postprocessor[Any], site: Site
) -> Predictor:
    """Return the predictor of an element.

    Raises ModelError when the model cannot be loaded, and ConfigurationError when an engine that was asked for by name
    is not available.
    """
    if site.gpu is None:
        return _host_predictor(element, plan, device=str(site.device), place={}, site=site)
    return _CudaOpening(element, plan, postprocessor, site, site.gpu).open()


def preview_engine(element: ModelElement, plan: ModelPlan, *, site: Site) -> tuple[EnginePreview, Chosen]:
    """Return which engine an element would use, and which file in which precision; compiles nothing.

    On a GPU `precision: auto` is not measured, because that compiles. Raises as `open_predictor` does.
    """
    form = plan.preprocessing.image_form() if plan.stack is None else None
    if site.gpu is None:
        speeds = CpuSpeeds(element.engine, form=form, warn=site.warn)
        chosen = choose_model(element, speeds=speeds, judge=BfloatJudge(element, plan, speeds.engine, site).known)
        host = engine_of(chosen.model, engine=element.engine, image=form, bfloat16=chosen.precision == "bf16")
        return host, _as_computed(chosen, host.name)
    opening = _CudaOpening(element, plan, element.postprocessor(plan, site), site, site.gpu)
    preview = opening.preview()
    if preview is None:
        preview = engine_of(element.model, engine=element.engine, device="cpu", image=form)
        preview = replace(preview, reason="; ".join(opening.reasons))
    wanted = _wanted_on_gpu(element)
    if wanted == "bf16":
        return preview, Chosen(element.model, "fp32", GpuSpeeds.no_bfloat16)
    precision: Precision = "fp32" if wanted == "auto" else wanted
    return preview, Chosen(element.model, precision, "measured when it runs" if wanted == "auto" else "")


def _wanted_on_gpu(element: ModelElement) -> PrecisionOption:
    """Return the precision that was asked for; fp32 where none was, because no GPU has confirmed the others yet."""
    return element.wanted_precision if element.has_precision else "fp32"


def _host_predictor(
    element: ModelElement, plan: ModelPlan, *, device: str, place: Mapping[str, str], site: Site
) -> Predictor:
    """Return a predictor whose engine takes host arrays. Raises DeviceUnavailable where the device cannot be used."""
    form = plan.preprocessing.image_form() if plan.stack is None else None
    if device.startswith("cuda"):
        chosen = Chosen(element.model, "fp32")
    else:
        speeds = CpuSpeeds(element.engine, form=form, warn=site.warn)
        chosen = _choose_model(element, speeds, BfloatJudge(element, plan, speeds.engine, site), site=site)
    preprocessor = _preprocessor(plan.preprocessing, site=site)
    engine = open_engine(
        chosen.model,
        engine=element.engine,
        device=device,
        image=form,
        bfloat16=chosen.precision == "bf16",
        warn=site.warn,
    )
    details = _as_computed(chosen, engine.name).report()
    return HostPredictor(plan, preprocessor=preprocessor, engine=engine, place={**place, **details})


def _as_computed(chosen: Chosen, engine: str) -> Chosen:
    """Return what the engine that was opened computes: ONNX Runtime may have replaced one that computes bfloat16."""
    if chosen.precision != "bf16" or ENGINES[engine].bfloat16 is not None:
        return chosen
    return replace(chosen, precision="fp32", reason=f"{engine} does not compute bf16")


def _choose_model(element: ModelElement, speeds: Speeds, judge: Judge, *, site: Site) -> Chosen:
    """Choose file and precision, and report the reason if one was asked for, or if it is not fp32.

    Raises ConfigurationError.
    """
    chosen = choose_model(element, speeds=speeds, judge=judge)
    if chosen.reason and (element.has_precision or chosen.precision != "fp32"):
        text = f"precision {chosen.precision}: {chosen.reason}"
        site.post(Message(MessageKind.MODEL, text, element=site.element_id))
    return chosen


def _preprocessor(definition: Preprocessing, *, site: Site) -> Preprocessor:
    """Return what prepares images: the GPU of the run, else the CPU."""
    if site.gpu is None:
        return HostPreprocessor(definition)
    from sightline_plugins.preprocess.cuda import CudaPreprocessor

    return CudaPreprocessor(definition, gpu=site.gpu)


@dataclass(slots=True)
class _CudaOpening:
    """Tries the engines in turn; `reasons` collects why those before the chosen one cannot run the model.

    With live streams a model that TensorRT has not compiled yet is served by the next engine meanwhile; with files the
    run begins when it is compiled, so that results do not depend on how long that takes.
    """

    element: ModelElement
    plan: ModelPlan
    postprocessor: Postprocessor[Any]
    site: Site
    gpu: CudaDevice
    reasons: list[str] = field(default_factory=list)

    def open(self) -> Predictor:
        """See `open_predictor`."""
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

    def preview(self) -> EnginePreview | None:
        """Return the engine that would run in the GPU's memory, as far as it is known without opening it; None, with
        the reasons, for an engine on the CPU.
        """
        from sightline_plugins.engines.onnxruntime_cuda import OnnxRuntimeCuda, why_not
        from sightline_plugins.engines.tensorrt_library import library_for

        reason = self._no_batches_reason()
        if reason is not None:
            self.reasons.append(reason)
            return None
        if "tensorrt" in on_cuda_memory(self.element.engine):
            precision: Precision = "fp16" if _wanted_on_gpu(self.element) == "fp16" else "fp32"
            try:
                model = self._tensorrt_model(Chosen(self.element.model, precision))
                return EnginePreview(str(library_for(self.gpu)), str(self.site.device), model.is_kept)
            except (DeviceUnavailable, MissingExtra, ModelError) as error:
                self.reasons.append(str(error))
        reason = why_not(self.gpu)
        if reason is None:
            return EnginePreview(OnnxRuntimeCuda.library(), str(self.site.device), None, "; ".join(self.reasons))
        self.reasons.append(reason)
        return None

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
            chosen = self._choose(str(library_for(self.gpu)), self._tensorrt_engine)
            model = self._tensorrt_model(chosen)
            if is_required or model.is_kept or not self.site.live:
                return self._compiled_predictor(model, chosen)
        except (DeviceUnavailable, MissingExtra, ModelError) as error:
            if is_required:
                raise
            self.reasons.append(str(error))
            return None
        return UpgradingPredictor(
            self._without_tensorrt(),
            make=lambda: self._compiled_predictor(model, chosen),
            stop=model.stop,
            ready=lambda: self._post(f"{model.label}: runs with TensorRT from now on"),
            warn=self.site.warn,
        )

    def _without_tensorrt(self) -> Predictor:
        """Return a predictor with ONNX Runtime on the GPU, or else with an engine on the CPU."""
        from sightline_plugins.engines.onnxruntime_cuda import OnnxRuntimeCuda, why_not

        reason = why_not(self.gpu)
        if reason is None:
            try:
                chosen = self._choose(OnnxRuntimeCuda.library(), self._onnxruntime_engine)
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
        place = {"engine_runs_on": str(self.site.device)}
        try:
            predictor = _host_predictor(
                self.element, self.plan, device=str(self.site.device), place=place, site=self.site
            )
            self._tell_of_operators(predictor.report)
            return predictor
        except DeviceUnavailable as error:
            self.reasons.append(str(error))
        return self._on_the_cpu()

    def _on_the_cpu(self) -> Predictor:
        reason = "; ".join(self.reasons)
        self.site.warn(f"the model runs on the CPU: {reason}")
        place = {"engine_runs_on": str(RunsOn("cpu", reason))}
        return _host_predictor(self.element, self.plan, device="cpu", place=place, site=self.site)

    def _choose(self, library: str, open_candidate: OpenCandidate) -> Chosen:
        if _wanted_on_gpu(self.element) == "fp32":
            return Chosen(self.element.model, "fp32")
        speeds = GpuSpeeds(self.gpu, library=library, size_wh=self._size_wh, open_candidate=open_candidate)
        judge = BfloatJudge(self.element, self.plan, library, self.site)
        return _choose_model(self.element, speeds, judge, site=self.site)

    def _tensorrt_model(self, chosen: Candidate | Chosen) -> TensorRtModel:
        from sightline_plugins.engines.tensorrt_model import TensorRtModel

        return TensorRtModel(
            chosen.model,
            gpu=self.gpu,
            precision=chosen.precision,
            size_wh=self._size_wh,
            batches=self._batches,
            input_range=self.plan.preprocessing.value_range,
            warn=self.site.warn,
        )

    def _tensorrt_engine(self, candidate: Candidate | Chosen, stream: CudaStream) -> CudaEngine:
        return self._compiled(self._tensorrt_model(candidate), stream)

    def _compiled(self, model: TensorRtModel, stream: CudaStream) -> CudaEngine:
        """Compile and load a model; progress becomes messages, the library's output goes to the log (`--verbose`)."""
        return model.load(stream=stream, progress=self._post, log=_log)

    def _compiled_predictor(self, model: TensorRtModel, chosen: Chosen) -> Predictor:
        stream = self._stream()
        return self._cuda_predictor(self._compiled(model, stream), stream, details=chosen.report())

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

    def _cuda_predictor(self, engine: CudaEngine, stream: CudaStream, *, details: Mapping[str, str]) -> Predictor:
        from sightline_plugins.infer.cuda_predictor import CudaPredictor

        return CudaPredictor(
            self.plan, engine=engine, postprocessor=self.postprocessor, gpu=self.gpu, stream=stream, details=details
        )

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


def _log(severity: str, text: str) -> None:
    _LOG.debug("%s: %s", severity, text)
