"""Open the predictor of an element whose engine takes host arrays: OpenVINO, ONNX Runtime or Triton.

Images are prepared on the CPU, or on a GPU and copied from there. In a run on a GPU these engines serve models that do
not run on batches in its memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sightline.graph.messages import Message, MessageKind
from sightline.graph.site import Site
from sightline_plugins.engines.kinds import ENGINES
from sightline_plugins.engines.opening import EnginePreview, open_engine, preview_engine
from sightline_plugins.engines.protocol import Engine
from sightline_plugins.infer.agreement import KnownVerdicts, PrecisionJudge
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor
from sightline_plugins.infer.precision import Candidate, Chosen, Judge, Speeds, choose_model
from sightline_plugins.infer.precision_speeds import CpuSpeeds
from sightline_plugins.infer.requests import HostPredictor, Predictor
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.definition import ImageForm, Preprocessing, Preprocessor


@dataclass(frozen=True, slots=True)
class HostOpening:
    """Opens engines that take host arrays: those of the CPU, and on a GPU those of single images."""

    element: ModelElement
    plan: ModelPlan
    site: Site

    def predictor(self, *, device: str, place: Mapping[str, str]) -> Predictor:
        """Return a predictor on a device. Raises DeviceUnavailable where that cannot be used."""
        if device.startswith("cuda"):
            reason = "images one by one are computed as the file says" if self.element.has_precision else ""
            chosen = Chosen(self.element.model, "fp32", reason if self.element.wanted_precision != "fp32" else "")
        else:
            chosen = choose_and_post(self.element, self.speeds, self.judge, site=self.site)
        engine = self._engine(chosen, device=device)
        details = _as_computed(chosen, engine.name).report()
        preprocessor = _preprocessor(self.plan.preprocessing, site=self.site)
        return HostPredictor(self.plan, preprocessor=preprocessor, engine=engine, place={**place, **details})

    def preview(self) -> tuple[EnginePreview, Chosen]:
        """Return the engine and the precision on the CPU, found out without opening them."""
        chosen = choose_model(self.element, speeds=self.speeds, judge=KnownVerdicts(self.judge))
        is_bfloat16 = chosen.precision == "bf16"
        engine = preview_engine(chosen.model, engine=self.element.engine, image=self.form, bfloat16=is_bfloat16)
        return engine, _as_computed(chosen, engine.name)

    @property
    def form(self) -> ImageForm | None:
        """The form of the images that the engine takes."""
        return self.plan.preprocessing.image_form() if self.plan.stack is None else None

    @property
    def speeds(self) -> CpuSpeeds:
        """What measures precisions on the CPU."""
        return CpuSpeeds(self.element.engine, form=self.form, warn=self.site.warn)

    @property
    def judge(self) -> PrecisionJudge:
        """What judges precisions on the CPU."""
        return PrecisionJudge(self.element, self.plan, self.site, self.speeds.computes, self._judged)

    def _judged(self, candidate: Candidate, decoder: Postprocessor[object]) -> Predictor:
        del decoder  # it reads what a request holds
        engine = self._engine(candidate, device="cpu")
        preprocessor = HostPreprocessor(self.plan.preprocessing)
        return HostPredictor(self.plan, preprocessor=preprocessor, engine=engine, place={})

    def _engine(self, candidate: Candidate | Chosen, *, device: str) -> Engine:
        return open_engine(
            candidate.model,
            engine=self.element.engine,
            device=device,
            image=self.form,
            bfloat16=candidate.precision == "bf16",
            warn=self.site.warn,
        )


def _as_computed(chosen: Chosen, engine: str) -> Chosen:
    """Return what the engine that was opened computes: ONNX Runtime may have replaced one that computes bfloat16."""
    if chosen.precision != "bf16" or ENGINES[engine].bfloat16 is not None:
        return chosen
    return replace(chosen, precision="fp32", reason=f"{engine} does not compute bf16")


def choose_and_post(element: ModelElement, speeds: Speeds, judge: Judge, *, site: Site) -> Chosen:
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
