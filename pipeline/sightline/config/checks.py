"""What can be told of a whole pipeline before anything runs: streams, ids, files, devices, needs, labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Protocol

from sightline.config.capabilities import unmet_needs
from sightline.config.files import file_problems
from sightline.config.images import lost_images
from sightline.config.labels import unknown_labels
from sightline.config.nodes import Node, Scalar, walk
from sightline.config.problems import Key, LocatedProblem, Place, allowed
from sightline.config.references import unknown_steps
from sightline.config.rules import unknown_rules
from sightline.config.steps import UnreadStep
from sightline.config.stream_names import name_problems
from sightline.devices import Device, resolve_device
from sightline.errors import ConfigurationError, SightlineError
from sightline.graph.element import CheckContext, Element
from sightline.graph.outputs import Outputs
from sightline.graph.registry import Registry, suggest
from sightline.graph.streams import matching
from sightline.graph.tree import PipelineDescription, Step, identify

Found = tuple[Key, str]


class Hide(Protocol):
    """Takes the values of environment variables out of a message (`Environment.hide`)."""

    def __call__(self, text: str, *, certain: Iterable[str] = ()) -> str: ...


def _shown(text: str, *, certain: Iterable[str] = ()) -> str:
    del certain
    return text


def problems_of(
    description: PipelineDescription,
    *,
    registry: Registry,
    outputs: Outputs,
    root: Node | None,
    hide: Hide = _shown,
    streams_may_come: bool = False,
    given: Device | None = None,
) -> Iterator[LocatedProblem]:
    """Every mistake that the parts do not show by themselves; `root` is the tree that gives the places. When streams
    may still come, what is meant for streams that are not there is no mistake. `given` is the device that the program
    gives, in the place of the one that the description means.
    """
    device, found = _device(description.device) if given is None else (given, [])
    streams, may_come = tuple(description.sources), streams_may_come or description.stays
    context = CheckContext(device=device, streams=streams, outputs=outputs, streams_may_come=may_come)
    reached = streams or (("any",) if may_come else ())
    elements = list(placed(description.steps))
    found += [
        *_emptiness(description, in_file=root is not None),
        *_doubled_ids(description, elements),
        *((("sources", name), message) for name, message in name_problems(streams)),
        *_streams(elements, () if may_come else streams),
    ]
    found += [*file_problems(description, elements, outputs)]
    found += [*unmet_needs(description.steps, streams=reached, registry=registry)]
    found += [*unknown_labels(description.steps, streams=reached)]
    found += [*unknown_rules(description.steps, streams=reached)]
    found += [*lost_images(description.steps)]
    found += [*unknown_steps(description.steps, streams=reached)]
    seen = {key for key, _ in found}
    for key, element in elements:
        found += [one for one in own_problems(element, key, context) if one[0] not in seen]
    for key, message in found:
        yield LocatedProblem(place_of(root, key), key, hide(message, certain=_variables(root, key)))


def place_of(root: Node | None, key: Key) -> Place:
    """Where the value of a key path stands, or as much of the path as there is."""
    if root is None:
        return Place()
    _, node, key_place = list(walk(root, key))[-1]
    return node.place if isinstance(node, Scalar) and node.value is not None else key_place


def _variables(root: Node | None, key: Key) -> tuple[str, ...]:
    """The environment variables that the value of a key path holds."""
    node = None if root is None else list(walk(root, key))[-1][1]
    return node.variables if isinstance(node, Scalar) else ()


def placed(steps: Iterable[Step], key: Key = ("pipeline",)) -> Iterator[tuple[Key, Element]]:
    """Every element below the steps with its key path, in the order of the description."""
    for number, step in enumerate(steps):
        if isinstance(step, Element):
            yield (*key, number, step.name), step
        else:
            for name, branch in step.branches.items():
                yield from placed(branch, (*key, number, step.name, name))


def _device(name: str) -> tuple[Device, list[Found]]:
    try:
        return resolve_device(name), []
    except ConfigurationError as error:
        return Device(), [(("device",), str(error))]


def _emptiness(description: PipelineDescription, *, in_file: bool) -> Iterator[Found]:
    if not description.sources and not description.stays:
        yield ("sources",), "there are no sources: name at least one stream, as in `sources: {gate: gate.mp4}`"
    if in_file and not description.steps:
        yield ("pipeline",), "there are no steps: list at least one, as in `pipeline: [detect: {model: ...}]`"


def _doubled_ids(description: PipelineDescription, elements: list[tuple[Key, Element]]) -> Iterator[Found]:
    first: dict[str, Key] = {}
    for (identity, _), (key, element) in zip(identify(description.steps), elements, strict=True):
        if identity in first:
            of = ".".join(str(part) for part in first[identity])
            shown = (*key, "id") if element.id is not None else key
            yield shown, f"the id {identity!r} is already that of {of}: every step has its own"
        first.setdefault(identity, key)


def _streams(elements: list[tuple[Key, Element]], streams: tuple[str, ...]) -> Iterator[Found]:
    for key, element in elements:
        for number, glob in enumerate(element.streams or ()):
            if streams and not any(fnmatchcase(name, glob) for name in streams):
                near = suggest(glob, streams) or f"; streams: {allowed(streams)}"
                yield (*key, "streams", number), f"no stream matches {glob!r}{near}"
        if element.streams == ():
            yield (*key, "streams"), "is empty, so that the step works on no stream: leave it out for all streams"


def own_problems(element: Element, key: Key, context: CheckContext) -> Iterator[Found]:
    """What an element finds wrong with itself."""
    if isinstance(element, UnreadStep):
        return
    own = replace(context, streams=matching(element.streams, context.streams))
    try:
        for problem in element.check(own):
            yield (*key, *problem.key), problem.message
    except SightlineError as error:
        yield key, str(error)
