"""Open the predictor of an element: which engine runs its model, from which file, in which precision, and where.

In a run on the CPU that is OpenVINO, ONNX Runtime or Triton (`host_opening.py`). In a run on a GPU it is TensorRT, else
ONNX Runtime with CUDA, else an engine on the CPU (`cuda_opening.py`).
"""

from __future__ import annotations

from typing import Any

from sightline.graph.site import Site
from sightline_plugins.engines.opening import EnginePreview
from sightline_plugins.infer.host_opening import HostOpening
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor
from sightline_plugins.infer.precision import Chosen
from sightline_plugins.infer.requests import Predictor


def open_predictor(
    element: ModelElement, plan: ModelPlan, *, postprocessor: Postprocessor[Any], site: Site
) -> Predictor:
    """Return the predictor of an element.

    Raises ModelError when the model cannot be loaded, and ConfigurationError when an engine that was asked for by name
    is not available.
    """
    if site.gpu is None:
        return HostOpening(element, plan, site).predictor(device=str(site.device), place={})
    from sightline_plugins.infer.cuda_opening import CudaOpening

    return CudaOpening(element, plan, postprocessor, site, site.gpu).open()


def preview_engine(element: ModelElement, plan: ModelPlan, *, site: Site) -> tuple[EnginePreview, Chosen]:
    """Return which engine an element would use, and which file in which precision.

    On a GPU nothing is compiled for that: what `precision: auto` has not measured at an earlier start is left open.
    Raises as `open_predictor` does.
    """
    if site.gpu is None:
        return HostOpening(element, plan, site).preview()
    from sightline_plugins.infer.cuda_opening import CudaOpening

    return CudaOpening(element, plan, element.postprocessor(plan, site), site, site.gpu).preview()
