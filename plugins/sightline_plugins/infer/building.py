"""From a step and its plan to the operator: engine, subjects and task put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sightline.errors import DeviceUnavailable
from sightline.graph.operator import Operator, RunsOn
from sightline.graph.site import Site
from sightline_plugins.infer.box_options import BoxElement
from sightline_plugins.infer.engines.protocol import Engine, open_engine
from sightline_plugins.infer.looks.engine_looker import EngineLooker
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.pixels.preprocess import HostPreprocessor, Preprocessing, Preprocessor
from sightline_plugins.infer.runner import ModelRunner
from sightline_plugins.infer.subjects.objects import ObjectSubjects
from sightline_plugins.infer.subjects.regions import PartSubjects, region_placements
from sightline_plugins.infer.subjects.stacks import StackSubjects
from sightline_plugins.infer.subjects.subject import Subjects
from sightline_plugins.infer.subjects.tiles import tile_placements
from sightline_plugins.infer.tasks.task import Task


def build_runner(element: ModelElement, plan: ModelPlan, *, task: Task[Any], site: Site) -> Operator:
    """The operator of a step. Raises ModelError or ConfigurationError when the model can not be loaded."""
    preprocessor = preprocessor_for(plan.preprocessing, site=site)
    engine, place = _open_engine(element, plan, site=site)
    return ModelRunner(
        EngineLooker(plan, preprocessor=preprocessor, engine=engine, place=place),
        subjects=subjects_of(element, plan),
        task=task,
        is_stacked=plan.stack is not None,
        element_id=site.element_id or element.name,
        warn=site.warn,
    )


def preprocessor_for(definition: Preprocessing, *, site: Site) -> Preprocessor:
    """What makes a model's inputs where the step is built: the GPU of the run, else the CPU."""
    if site.gpu is None:
        return HostPreprocessor(definition)
    from sightline_plugins.infer.pixels.preprocess_device import DevicePreprocessor

    return DevicePreprocessor(definition, gpu=site.gpu)


def _open_engine(element: ModelElement, plan: ModelPlan, *, site: Site) -> tuple[Engine, Mapping[str, str]]:
    """The engine, on the run's device or else on the CPU; on a GPU's run where it computes, for the report."""
    form = plan.preprocessing.image_form() if plan.stack is None else None
    device = str(site.device)
    try:
        engine = open_engine(element.model, engine=element.engine, device=device, image=form, warn=site.warn)
    except DeviceUnavailable as error:
        if site.gpu is None:
            raise
        site.warn(f"the model is computed on the CPU: {error}")
        engine = open_engine(element.model, engine=element.engine, image=form, warn=site.warn)
        return engine, {"engine_runs_on": str(RunsOn("cpu", str(error)))}
    return engine, {} if site.gpu is None else {"engine_runs_on": device}


def subjects_of(element: ModelElement, plan: ModelPlan) -> Subjects:
    """What the step runs its model on."""
    if plan.stack is None:
        return _chosen(element, plan, every=element.every, refresh_ns=element.refresh)
    return StackSubjects(_chosen(element, plan, every=1, refresh_ns=0), plan.stack, every=element.every)


def _chosen(element: ModelElement, plan: ModelPlan, *, every: int, refresh_ns: int) -> Subjects:
    if element.on is not None:
        return ObjectSubjects(element.on, plan.preprocessing, refresh_ns=refresh_ns, every=every)
    if isinstance(element, BoxElement) and element.tiles is not None:
        return PartSubjects(tile_placements(element.tiles, plan.preprocessing), every=every)
    return PartSubjects(region_placements(plan.preprocessing, regions_of=element.regions_of), every=every)
