"""From a step and its plan to the operator: engine, subjects and task put together."""

from __future__ import annotations

from typing import Any

from sightline.graph.operator import Operator
from sightline.graph.site import Site
from sightline_plugins.infer.box_options import BoxElement
from sightline_plugins.infer.looks.opening import open_predictor
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.runner import ModelRunner
from sightline_plugins.infer.subjects.objects import ObjectSubjects
from sightline_plugins.infer.subjects.regions import PartSubjects, region_placements
from sightline_plugins.infer.subjects.stacks import StackSubjects
from sightline_plugins.infer.subjects.subject import Subjects
from sightline_plugins.infer.subjects.tiles import tile_placements
from sightline_plugins.infer.tasks.task import Task


def build_runner(element: ModelElement, plan: ModelPlan, *, task: Task[Any], site: Site) -> Operator:
    """The operator of a step. Raises ModelError or ConfigurationError when the model can not be loaded."""
    return ModelRunner(
        open_predictor(element, plan, task=task, site=site),
        subjects=subjects_of(element, plan),
        task=task,
        is_stacked=plan.stack is not None,
        element_id=site.element_id or element.name,
        warn=site.warn,
    )


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
