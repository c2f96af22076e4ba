"""Open the predictor of an element, on the CPU or on the GPU of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sightline.graph.messages import Message, MessageKind
from sightline.graph.operator import RunsOn
from sightline.graph.site import Site
from sightline_plugins.engines.protocol import open_engine
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor
from sightline_plugins.infer.precision import Chosen, Speeds, choose_model
from sightline_plugins.infer.precision_speeds import CpuSpeeds
from sightline_plugins.infer.requests import HostPredictor, Predictor
from sightline_plugins.pixels.image_form import ImageForm
from sightline_plugins.pixels.preprocess import HostPreprocessor, Preprocessing, Preprocessor


def open_engine_predictor(element: ModelElement, plan: ModelPlan, *, site: Site) -> Predictor:
    """One with an engine of single images, on the run's device. Raises DeviceUnavailable where it cannot be had."""
    place = {} if site.gpu is None else {"engine_runs_on": str(site.device)}
    return _with_engine(element, plan, device=str(site.device), place=place, site=site)


def open_cpu_predictor(element: ModelElement, plan: ModelPlan, *, reason: str, site: Site) -> Predictor:
    """One whose engine computes on the CPU although the run is on a GPU; `reason` says why."""
    site.warn(f"the model is computed on the CPU: {reason}")
    place = {"engine_runs_on": str(RunsOn("cpu", reason))}
    return _with_engine(element, plan, device="cpu", place=place, site=site)


def _with_engine(
    element: ModelElement, plan: ModelPlan, *, device: str, place: Mapping[str, str], site: Site
) -> Predictor:
    form = plan.preprocessing.image_form() if plan.stack is None else None
    chosen = _chosen(element, form, device=device, site=site)
    preprocessor = preprocessor_for(plan.preprocessing, site=site)
    engine = open_engine(chosen.model, engine=element.engine, device=device, image=form, warn=site.warn)
    return HostPredictor(plan, preprocessor=preprocessor, engine=engine, place={**place, **chosen.report()})


def _chosen(element: ModelElement, form: ImageForm | None, *, device: str, site: Site) -> Chosen:
    """Which file is computed, and in which precision."""
    if device.startswith("cuda"):
        return Chosen(element.model, "fp32")
    return choose_and_tell(element, CpuSpeeds(element.engine, form=form, warn=site.warn), site=site)


def choose_and_tell(element: ModelElement, speeds: Speeds, *, site: Site) -> Chosen:
    """What is computed, and told once why where that was not simply asked for. Raises ConfigurationError."""
    chosen = choose_model(element, speeds=speeds)
    if chosen.reason:
        text = f"precision {chosen.precision}: {chosen.reason}"
        site.post(Message(MessageKind.MODEL, text, element=site.element_id))
    return chosen


def preprocessor_for(definition: Preprocessing, *, site: Site) -> Preprocessor:
    """What makes a model's inputs where the step is built: the GPU of the run, else the CPU."""
    if site.gpu is None:
        return HostPreprocessor(definition)
    from sightline_plugins.preprocess.cuda_preprocessor import CudaPreprocessor

    return CudaPreprocessor(definition, gpu=site.gpu)


def open_predictor(
    element: ModelElement, plan: ModelPlan, *, postprocessor: Postprocessor[Any], site: Site
) -> Predictor:
    """The predictor of a step. Raises ModelError or ConfigurationError when the model cannot be loaded."""
    if site.gpu is None:
        return open_engine_predictor(element, plan, site=site)
    from sightline_plugins.infer.cuda_opening import open_cuda_predictor

    return open_cuda_predictor(element, plan, postprocessor=postprocessor, site=site, gpu=site.gpu)
