"""Predictors with an engine that takes one picture at a time: which file it computes, in which precision, and where."""

from __future__ import annotations

from collections.abc import Mapping

from sightline.graph.messages import Message, MessageKind
from sightline.graph.operator import RunsOn
from sightline.graph.site import Site
from sightline_plugins.infer.engines.protocol import open_engine
from sightline_plugins.infer.looks.engine_predictor import EnginePredictor
from sightline_plugins.infer.looks.look import Predictor
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.precision.choice import Chosen, Speeds, choose_model
from sightline_plugins.infer.precision.on_cpu import CpuSpeeds
from sightline_plugins.pixels.image_form import ImageForm
from sightline_plugins.pixels.preprocess import HostPreprocessor, Preprocessing, Preprocessor


def open_engine_predictor(element: ModelElement, plan: ModelPlan, *, site: Site) -> Predictor:
    """One with an engine of single pictures, on the run's device. Raises DeviceUnavailable where it can not be had."""
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
    return EnginePredictor(plan, preprocessor=preprocessor, engine=engine, place={**place, **chosen.report()})


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
    from sightline_plugins.infer.looks.preprocess_device import DevicePreprocessor

    return DevicePreprocessor(definition, gpu=site.gpu)
