"""Check a whole description before anything runs."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from sightline.config.alarm_checks import lost_alarms
from sightline.config.document import Key, LocatedProblem, Node, Place, Scalar, dotted, walk
from sightline.config.sources import name_problems
from sightline.config.step_checks import (
    lost_images,
    moved_objects,
    unknown_labels,
    unknown_rules,
    unknown_steps,
    unknown_views,
    unmet_needs,
    unredacted_images,
)
from sightline.config.steps import UnreadStep
from sightline.devices import Device, resolve_device
from sightline.errors import ConfigurationError, OutputError, SightlineError
from sightline.graph.element import CheckContext, Element
from sightline.graph.fields import STANDARD_STREAM, PathRole, is_file_name, is_folder, is_there, matching, paths_of
from sightline.graph.outputs import Outputs
from sightline.graph.registry import Registry
from sightline.graph.tree import PipelineDescription, Step, identify
from sightline.graph.wording import allowed, suggest

Found = tuple[Key, str]
_NUMBERED = re.compile(r"%\d*d")


def file_problems(
    description: PipelineDescription, elements: Sequence[tuple[Key, Element]], outputs: Outputs
) -> Iterator[Found]:
    """Inputs that are missing, outputs outside the output folder, and files that two would write."""
    for name, source in description.sources.items():
        for field, role, path in paths_of(source):
            yield from _missing(("sources", name, *field), role, path)
    taken = _read_by_sources(description)
    if any(element.delivers for _, element in elements):
        yield from _written(("outbox", "path"), description.outbox_path, (), outputs, taken)
    if description.state_path is not None and "state" in description.model_fields_set:
        yield from _written(("state",), description.state_path, (), outputs, taken)
    for key, element in elements:
        for field, role, path in paths_of(element):
            if role is PathRole.OUTPUT:
                streams = matching(element.streams, description.sources)
                yield from _written((*key, *field), path, streams, outputs, taken)
            else:
                yield from _missing((*key, *field), role, path)


def _missing(key: Key, role: PathRole, path: str) -> Iterator[Found]:
    if "{stream}" in path:  # one file for each stream: the element looks for them
        return
    if role is PathRole.OUTPUT or (role is PathRole.INPUT_URI and (not is_file_name(path) or _NUMBERED.search(path))):
        return
    if glob.has_magic(path):
        if not is_there(Path(path)) and not _matches(Path(path)):
            yield key, f"no file matches {path}"
        return
    if not is_there(Path(path).expanduser()):
        yield key, f"there is no file {path}{_near(Path(path))}"
    elif role is PathRole.INPUT_URI and is_folder(Path(path)) and (cause := _nothing_in(Path(path))):
        yield key, cause


def _matches(pattern: Path) -> bool:
    absolute = pattern.expanduser().absolute()
    try:
        return any(Path(absolute.anchor).glob(str(absolute.relative_to(absolute.anchor))))
    except OSError:  # a name that no file can have
        return False


def _nothing_in(folder: Path) -> str:
    """Why nothing can be read from a folder; empty when there are files."""
    try:
        is_empty = all(entry.name.startswith(".") for entry in folder.iterdir())
    except OSError as error:
        return f"the folder {folder} cannot be read: {error.strerror}"
    return f"the folder {folder} is empty" if is_empty else ""


def _near(path: Path) -> str:
    if path.name.startswith("pipe:"):
        return "; standard input is written '-'"
    try:
        return suggest(path.name, [other.name for other in path.parent.iterdir()])
    except OSError:
        return f"; the folder {path.parent} does not exist either" if not is_folder(path.parent) else ""


def _read_by_sources(description: PipelineDescription) -> dict[Path, str]:
    return {
        Path(path).expanduser().absolute(): f"the source {name!r} reads it"
        for name, source in description.sources.items()
        for _, role, path in paths_of(source)
        if role is not PathRole.OUTPUT and is_file_name(path)
    }


def _written(
    key: Key, template: str, streams: Sequence[str], outputs: Outputs, taken: dict[Path, str]
) -> Iterator[Found]:
    mine: dict[Path, str] = {}
    for stream in streams if "{stream}" in template else (None,):
        try:
            path = outputs.path(template, stream=stream)
        except OutputError as error:
            yield key, str(error)
            return
        if path in taken:
            yield key, f"{path} cannot be written: {taken[path]}"
            return
        if path.suffix:
            mine[path] = f"{dotted(key[:-1])} writes it too"
    taken.update(mine)


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
    is_checked: Callable[[str, Element], bool] = lambda _, __: False,
) -> Iterator[LocatedProblem]:
    """Every mistake that the parts do not show by themselves; `root` is the tree that gives the places. When streams
    may still come, what is meant for streams that are not there is no mistake. `given` is the device that the program
    gives, in the place of the one that the description means. Steps that `is_checked` knows, by id, are not asked for
    what is wrong with themselves.
    """
    device, found = _device(description.device) if given is None else (given, [])
    streams, may_come = tuple(description.sources), streams_may_come or description.stays
    context = CheckContext(device=device, streams=streams, outputs=outputs, streams_may_come=may_come)
    reached = streams or (("any",) if may_come else ())
    elements = list(placed(description.steps))
    description.limit(outputs)
    found += [
        *_emptiness(description, in_file=root is not None),
        *_doubled_ids(description, elements),
        *((("sources", name), message) for name, message in name_problems(streams)),
        *_streams(elements, () if may_come else streams),
        *_telemetry(description),
        *_processes(description, elements),
        *_shared_inputs(description),
        *_standard_output(elements),
    ]
    found += [*file_problems(description, elements, outputs)]
    found += [*unmet_needs(description.steps, streams=reached, registry=registry)]
    found += [*unknown_labels(description.steps, streams=reached)]
    found += [*unknown_rules(description.steps, streams=reached)]
    found += [*lost_alarms(description.steps, streams=reached)]
    found += [*lost_images(description.steps)]
    found += [*moved_objects(description.steps, streams=reached)]
    found += [*unredacted_images(description.steps, streams=reached)]
    found += [*unknown_views(description.steps, streams=reached)]
    found += [*unknown_steps(description.steps, streams=reached)]
    seen = {key for key, _ in found}
    for (key, element), (element_id, _) in zip(elements, identify(description.steps), strict=True):
        if is_checked(element_id, element):
            continue
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


def _telemetry(description: PipelineDescription) -> Iterator[Found]:
    if description.telemetry is not None:
        for problem in description.telemetry.check():
            yield ("telemetry", *problem.key), problem.message


def _processes(description: PipelineDescription, elements: Sequence[tuple[Key, Element]]) -> Iterator[Found]:
    if description.processes.count in (1, "auto"):
        return
    keys = {element_id: key for (element_id, _), (key, _) in zip(description.elements(), elements, strict=True)}
    for where, reason in description.against_processes():
        yield (
            keys[where[1]] if where[0] == "pipeline" else where,
            f"cannot be part of a pipeline in several processes, because {reason}: leave it out, or `processes`",
        )


def _shared_inputs(description: PipelineDescription) -> Iterator[Found]:
    """Inputs that only one stream can read, and that several name."""
    readers: dict[str, str] = {}
    for name, source in description.sources.items():
        if (what := source.read_once) is None:
            continue
        if what in readers:
            yield ("sources", name), f"{what} can be read by one stream only, and {readers[what]!r} reads it already"
        readers.setdefault(what, name)


def _standard_output(elements: Sequence[tuple[Key, Element]]) -> Iterator[Found]:
    """Steps that need standard output for themselves, and do not have it. Lines of one kind may stand together."""
    writing = {key: (element, field) for key, element, field in standard_output_of(elements)}
    for place, (key, (element, field)) in enumerate(writing.items()):
        others = [
            dotted(other)
            for number, (other, (beside, _)) in enumerate(writing.items())
            if number != place and (element.fills_standard_output or (beside.name != element.name and number < place))
        ]
        if others:
            text = f"standard output would hold what {allowed(others)} writes, too: give one of them a file"
            yield (*key, *field), text


def standard_output_of(elements: Iterable[tuple[Key, Element]]) -> Iterator[tuple[Key, Element, Key]]:
    """The steps that write to standard output, each with its key and the key of its option."""
    for key, element in elements:
        for field, role, path in paths_of(element):
            if role is PathRole.OUTPUT and path == STANDARD_STREAM:
                yield key, element, field


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
        for number, pattern in enumerate(element.streams or ()):
            if streams and not any(fnmatchcase(name, pattern) for name in streams):
                near = suggest(pattern, streams) or f"; streams: {allowed(streams)}"
                yield (*key, "streams", number), f"no stream matches {pattern!r}{near}"
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
    found += [*moved_objects(description.steps, streams=streams)]
    found += [*unknown_views(description.steps, streams=streams)]
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
