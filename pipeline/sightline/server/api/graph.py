"""The route about the graph of a pipeline: which steps there are, and how they run."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Response

from sightline.api import GraphLink, GraphStage, GraphStep, PipelineGraph
from sightline.config.schema import purpose_of
from sightline.graph import PipelineDescription
from sightline.graph.transport import destinations
from sightline.redaction import redact
from sightline.runtime.stats.snapshot import RunLayout
from sightline.server.api.served import PIPELINE, Served

GRAPH = f"{PIPELINE}/graph"


def router_of(served: Served) -> APIRouter:
    """Make the route."""
    router = APIRouter(tags=["pipelines"], dependencies=[Depends(served.known)])
    pipeline = served.pipeline

    @router.get(GRAPH, summary="Show the graph as it runs")
    def show_graph(response: Response) -> PipelineGraph:
        """Steps, the threads that run them, and the links that frames wait in. The figures are in the status."""
        configuration = pipeline.configuration
        response.headers["ETag"] = f'"{configuration.etag}"'
        return graph_of(configuration.description, pipeline.layout())

    return router


def graph_of(description: PipelineDescription, layout: RunLayout) -> PipelineGraph:
    """Return the graph of a pipeline. What runs still, or not yet, while a change is made is left out."""
    stages = {step: stage.name for stage in layout.stages for step in stage.steps}
    elements = dict(description.elements())
    delivering: dict[str, list[str]] = {}
    for name, _ in destinations(elements.items()):
        delivering.setdefault(name.partition("/")[0], []).append(name)
    steps = []
    for step_id, element in elements.items():
        place = layout.places.get(step_id)
        steps.append(
            GraphStep(
                id=step_id,
                element=element.name,
                purpose=purpose_of(type(element)),
                streams=None if element.streams is None else list(element.streams),
                is_sink=element.sink,
                stage=stages.get(step_id),
                device=None if place is None else place.device,
                device_reason="" if place is None else redact(place.reason),
                engine="" if place is None else place.engine,
                destinations=delivering.get(step_id, []),
            )
        )
    known = {*elements, *(stage.name for stage in layout.stages if stage.is_join)}
    return PipelineGraph(
        streams=list(description.sources),
        steps=steps,
        links=[
            GraphLink(start=one.start, end=one.end, link=one.link, branch=one.branch)
            for one in layout.links
            if one.end in known and (one.start is None or one.start in known)
        ],
        stages=[
            GraphStage(
                name=one.name, link=one.link, steps=list(one.steps), waits_for=one.waits_for, is_join=one.is_join
            )
            for one in layout.stages
        ],
    )
