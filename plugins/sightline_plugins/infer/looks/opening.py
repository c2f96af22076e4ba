"""From a step and its plan to what shows pictures to its model: on the GPU of the run, or on the CPU."""

from __future__ import annotations

from typing import Any

from sightline.graph.site import Site
from sightline_plugins.infer.looks.engine_opening import open_engine_predictor
from sightline_plugins.infer.looks.look import Predictor
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.tasks.task import Task


def open_predictor(element: ModelElement, plan: ModelPlan, *, task: Task[Any], site: Site) -> Predictor:
    """The predictor of a step. Raises ModelError or ConfigurationError when the model can not be loaded."""
    if site.gpu is None:
        return open_engine_predictor(element, plan, site=site)
    from sightline_plugins.infer.looks.device.opening import open_gpu_predictor

    return open_gpu_predictor(element, plan, task=task, site=site, gpu=site.gpu)
