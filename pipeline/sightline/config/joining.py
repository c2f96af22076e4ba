"""What can be told of a stream before it joins a pipeline that runs."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.config.capabilities import unmet_needs
from sightline.config.checks import Found, own_problems, placed
from sightline.config.files import file_problems
from sightline.config.labels import unknown_labels
from sightline.config.problems import LocatedProblem, Place
from sightline.config.references import unknown_steps
from sightline.config.rules import unknown_rules
from sightline.config.stream_names import name_problems
from sightline.devices import Device, resolve_device
from sightline.graph.element import CheckContext, Element
from sightline.graph.fields import PathRole, paths_of
from sightline.graph.outputs import Outputs
from sightline.graph.registry import Registry
from sightline.graph.tree import PipelineDescription


def check_joining(
    description: PipelineDescription,
    name: str,
    *,
    outputs: Outputs | None = None,
    registry: Registry | None = None,
    given: Device | None = None,
) -> tuple[LocatedProblem, ...]:
    """Every mistake that the stream of that name brings into a description that was right without it. `given` is the
    device that the program gives.

    It is quick: of the steps, only those are asked whose paths have to do with streams; the others have checked their
    models and files before they were built.
    """
    outputs, streams = outputs or Outputs(), (name,)
    registry = registry or Registry()
    found: list[Found] = [(("sources", wrong), message) for wrong, message in name_problems(description.sources)]
    found += [*_file_problems(description, name, outputs)]
    found += [*unmet_needs(description.steps, streams=streams, registry=registry)]
    found += [*unknown_labels(description.steps, streams=streams)]
    found += [*unknown_rules(description.steps, streams=streams)]
    found += [*unknown_steps(description.steps, streams=streams)]
    seen = {key for key, _ in found}
    device = given or resolve_device(description.device)
    context = CheckContext(device=device, streams=streams, outputs=outputs, streams_may_come=True)
    for key, element in placed(description.steps):
        if _looks_at_streams(element):
            found += [one for one in own_problems(element, key, context) if one[0] not in seen]
    return tuple(LocatedProblem(Place(), key, message) for key, message in found)


def _file_problems(description: PipelineDescription, name: str, outputs: Outputs) -> Iterator[Found]:
    """Without those of the other sources, whose files may be gone by now."""
    for key, message in file_problems(description, list(placed(description.steps)), outputs):
        if key[0] != "sources" or key[1] == name:
            yield key, message


def _looks_at_streams(element: Element) -> bool:
    return any(role is PathRole.OUTPUT or "{stream}" in path for _, role, path in paths_of(element))
