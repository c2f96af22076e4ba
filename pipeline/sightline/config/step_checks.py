"""Check steps against the steps before them: what they need, labels, references, rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TypeVar

from sightline.config.document import Key
from sightline.errors import ConfigurationError
from sightline.graph.element import Capability, Element
from sightline.graph.fields import matching
from sightline.graph.references import (
    ChecksCapabilities,
    FindsLabels,
    FindsRules,
    MakesViews,
    Named,
    NamesLabels,
    NamesRules,
    NamesSteps,
    NamesViews,
    ReliesOnSearches,
    SearchesImages,
    SendsImages,
)
from sightline.graph.registry import Registry
from sightline.graph.tree import Parallel, Step, identify
from sightline.graph.wording import allowed, suggest

_Added = TypeVar("_Added")
_Reached = Mapping[str, frozenset[_Added]]
_Arrival = tuple[Key, Element, _Reached[_Added]]


def arrivals(
    steps: Sequence[Step], *, streams: Sequence[str], adds: Callable[[Element], frozenset[_Added]]
) -> Iterator[_Arrival[_Added]]:
    """Each element with its key path and, by stream that it works on, what the steps before it added.

    `adds` says what an element adds to each stream that it works on. What is added in a branch of a tee stays there;
    what is added in the branches of a parallel is joined behind it.
    """
    yield from _along(steps, dict.fromkeys(streams, frozenset()), ("pipeline",), adds)


def _along(
    steps: Sequence[Step], now: _Reached[_Added], key: Key, adds: Callable[[Element], frozenset[_Added]]
) -> Generator[_Arrival[_Added], None, _Reached[_Added]]:
    for number, step in enumerate(steps):
        here = (*key, number, step.name)
        if isinstance(step, Element):
            reached = {stream: now[stream] for stream in matching(step.streams, now)}
            yield here, step, reached
            added = adds(step)
            now = {**now, **{stream: before | added for stream, before in reached.items()}}
            continue
        ends: list[_Reached[_Added]] = []
        for name, branch in step.branches.items():
            ends.append((yield from _along(branch, now, (*here, name), adds)))
        if isinstance(step, Parallel):
            now = {stream: before.union(*(end[stream] for end in ends)) for stream, before in now.items()}
    return now


def unmet_needs(steps: Sequence[Step], *, streams: Sequence[str], registry: Registry) -> Iterator[tuple[Key, str]]:
    """Each step that needs what no step before it gives, with its key path and what to put before it."""
    for key, element, given in arrivals(steps, streams=streams, adds=_given):
        for capability in sorted(element.required()):
            lacking = [stream for stream, present in given.items() if capability not in present]
            if lacking:
                where = f" on the stream {lacking[0]!r}" if len(lacking) < len(given) else ""
                remedy = _remedy([name for name in _givers(capability, registry) if name != element.name])
                yield key, f"{element.name} needs {capability}, and no step before it gives any{where}{remedy}"
        for problem in element.check_given(given) if isinstance(element, ChecksCapabilities) else ():
            yield (*key, *problem.key), problem.message


def _given(element: Element) -> frozenset[Capability]:
    """Return what later steps can count on. What this step lacks is reported once, not again for the steps after it."""
    return element.provided() | element.required()


def _remedy(givers: Sequence[str]) -> str:
    if not givers:
        return ""
    return f": put {givers[0]} before it" if len(givers) == 1 else f": put one of {', '.join(givers)} before it"


def _givers(capability: Capability, registry: Registry) -> list[str]:
    names = []
    for name in registry.element_names:
        try:
            element = registry.element(name)
        except ConfigurationError:
            continue
        if capability in element.gives and capability not in element.needs:
            names.append(name)
    return names


_ANY_LABEL = None
"""Stands among labels for all those that nobody can tell before the pipeline runs."""


def unknown_labels(steps: Sequence[Step], *, streams: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """Each label that a step waits for in vain, with its key path and the labels that can reach the step.

    No report about a step that objects of unknown labels, or none at all, can reach on one of its streams. No
    element is asked what it finds unless some option names a label: to know it may mean to read a model file.
    """
    if not any(True for _, element in identify(tuple(steps)) for _ in _wanted_labels(element)):
        return
    for key, element, reached in arrivals(steps, streams=streams, adds=_found):
        found = frozenset[str | None]().union(*reached.values())
        known = sorted(label for label in found if label is not _ANY_LABEL)
        if known and _ANY_LABEL not in found:
            for below, label in _wanted_labels(element):
                if label not in found:
                    yield (*key, *below), _message(label, known)


def reaching_labels(steps: Sequence[Step], *, streams: Sequence[str]) -> dict[str, frozenset[str] | None]:
    """Return by id of each element the labels of the objects that steps before it find; None when any may come, or when
    no step before it finds objects. It may read model files.
    """
    ids = (identity for identity, _ in identify(tuple(steps)))
    return {
        next(ids): None
        if _ANY_LABEL in found or not found
        else frozenset(label for label in found if label is not None)
        for _, _, reached in arrivals(steps, streams=streams, adds=_found)
        for found in [frozenset[str | None]().union(*reached.values())]
    }


def _found(element: Element) -> frozenset[str | None]:
    if not isinstance(element, FindsLabels):
        return frozenset((_ANY_LABEL,)) if Capability.OBJECTS in element.provided() else frozenset()
    labels = element.found_labels()
    return frozenset((_ANY_LABEL,)) if labels is None else labels


def _wanted_labels(element: Element) -> Named:
    return element.wanted_labels() if isinstance(element, NamesLabels) else ()


def _message(label: str, known: Sequence[str]) -> str:
    near = suggest(label, known)
    return f"no step before it finds {label!r}{f'{near} They' if near else '; they'} find: {allowed(known)}"


def lost_images(steps: Sequence[Step], key: Key = ("pipeline",)) -> Iterator[tuple[Key, str]]:
    """Each step that changes images in a branch of a parallel in which no sink follows, with its key path."""
    for number, step in enumerate(steps):
        if isinstance(step, Element):
            continue
        for name, branch in step.branches.items():
            here = (*key, number, step.name, name)
            yield from lost_images(branch, here)
            if isinstance(step, Parallel):
                yield from _lost_in(branch, here)


def _lost_in(branch: Sequence[Step], key: Key) -> Iterator[tuple[Key, str]]:
    for number, step in enumerate(branch):
        if isinstance(step, Element) and step.changes_images and not any(map(_is_seen, branch[number + 1 :])):
            text = (
                f"what {step.name} changes is lost here: behind a parallel, images are those before it. "
                "Put it before or behind the parallel, or in a tee"
            )
            yield (*key, number, step.name), text


def _is_seen(step: Step) -> bool:
    if isinstance(step, Element):
        return step.sink
    return any(_is_seen(inner) for branch in step.branches.values() for inner in branch)


def unredacted_images(steps: Sequence[Step], *, streams: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """Each step that sends images to another machine which no step before has redacted, with its key path.

    A step that redacts in a branch of a parallel does so for the steps behind it in that branch only.
    """
    yield from _unredacted(steps, dict.fromkeys(streams, False), ("pipeline",))


def _unredacted(
    steps: Sequence[Step], redacted: Mapping[str, bool], key: Key
) -> Generator[tuple[Key, str], None, None]:
    for number, step in enumerate(steps):
        here = (*key, number, step.name)
        if not isinstance(step, Element):
            for name, branch in step.branches.items():
                yield from _unredacted(branch, redacted, (*here, name))
            continue
        own = matching(step.streams, redacted)
        host = step.images_leave_to() if isinstance(step, SendsImages) else None
        lacking = [stream for stream in own if not redacted[stream]]
        if host is not None and lacking:
            where = f" on the stream {lacking[0]!r}" if len(lacking) < len(redacted) else ""
            text = (
                f"{step.name} would send images to {host} that no step has redacted{where}: put privacy before it, or "
                "write unredacted: true if they may leave this machine"
            )
            yield here, text
        if step.redacts:
            redacted = {**redacted, **dict.fromkeys(own, True)}


def moved_objects(steps: Sequence[Step], *, streams: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """Each step that moves pixels behind one that finds objects, with its key path."""
    for key, element, given in arrivals(steps, streams=streams, adds=_given):
        if element.moves_pixels and any(Capability.OBJECTS in present for present in given.values()):
            text = (
                f"{element.name} moves pixels, so that the boxes which steps before it find would not fit any more: "
                "put it before the steps that find objects"
            )
            yield key, text


def unknown_views(steps: Sequence[Step], *, streams: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """Each view that no step before makes on a stream, and each step that makes views of views, with its key path."""

    def made(element: Element) -> frozenset[str]:
        return element.made_views() if isinstance(element, MakesViews) else frozenset()

    for key, element, reached in arrivals(steps, streams=streams, adds=made):
        known = sorted(frozenset[str]().union(*reached.values()))
        if made(element) and known:
            yield key, f"the images are composed of the views {allowed(known)} already: give all views to one step"
        for below, name in element.wanted_views() if isinstance(element, NamesViews) else ():
            lacking = [stream for stream, before in reached.items() if name not in before]
            if lacking:
                where = f" on the stream {lacking[0]!r}" if len(lacking) < len(reached) else ""
                near = suggest(name, known) or (f"; views: {allowed(known)}" if known else ": put dewarp before it")
                yield (*key, *below), f"no step before it makes a view {name!r}{where}{near}"


def unknown_steps(steps: Sequence[Step], *, streams: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """Each id that names no step before, or none that does what it is named for, with its key path and what to do."""
    known = list(identify(tuple(steps)))
    elements = dict(known)
    names = iter(known)

    def its_id(element: Element) -> frozenset[str]:
        identity, same = next(names)
        assert same is element
        return frozenset((identity,))

    for key, element, reached in arrivals(steps, streams=streams, adds=its_id):
        named = element.named_steps() if isinstance(element, NamesSteps) else ()
        relied_on = set(element.relied_on()) if isinstance(element, ReliesOnSearches) else set()
        for below, name in dict.fromkeys([*named, *relied_on]):
            lacking = [stream for stream, before in reached.items() if name not in before]
            if lacking:
                yield (*key, *below), _unknown(name, lacking, reached, is_somewhere=name in elements)
            elif (below, name) in relied_on and not _searches(elements[name]):
                yield (*key, *below), _no_search(element, elements[name], name)


def _searches(element: Element) -> bool:
    return isinstance(element, SearchesImages) and element.searches()


def _unknown(name: str, lacking: Sequence[str], reached: Mapping[str, frozenset[str]], *, is_somewhere: bool) -> str:
    before = sorted(frozenset[str]().union(*reached.values()))
    where = f" on the stream {lacking[0]!r}" if len(lacking) < len(reached) else ""
    if is_somewhere:
        return f"the step {name!r} does not stand before this one{where}: move it there"
    near = suggest(name, before)
    listed = f"{near} They" if near else "; they"
    return f"no step before is called {name!r}{where}{f'{listed} are: {allowed(before)}' if before else ''}"


def _no_search(element: Element, other: Element, name: str) -> str:
    if getattr(other, "on", None) is not None:
        reason = "it looks only at objects of other steps: name the step that searches the whole image"
    else:
        reason = "it does not search images for objects: name a detector"
    return f"{element.name} cannot rely on {name!r}, {reason}"


_ANY_RULE = "*"
"""Stands for all rules that are known only when the pipeline runs."""


def unknown_rules(steps: Sequence[Step], *, streams: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """Each rule that a step waits for in vain, with its key path and the rules whose events reach the step.

    A step that no events reach is reported as an unmet need.
    """
    ids = iter(identify(tuple(steps)))

    def own(element: Element) -> frozenset[str]:
        identity, same = next(ids)
        assert same is element
        if Capability.EVENTS not in element.provided():
            return frozenset()
        names = element.found_rules() if isinstance(element, FindsRules) else [_ANY_RULE]
        return frozenset(f"{identity}.{name}" for name in names)

    for key, element, reached in arrivals(steps, streams=streams, adds=own):
        known = sorted(frozenset[str]().union(*reached.values()))
        for below, name in element.wanted_rules() if isinstance(element, NamesRules) else ():
            if known and not any(means_rule(name, one) for one in known):
                near = suggest(name, known)
                listed = f"{near} Rules" if near else "; rules"
                yield (*key, *below), f"no step before it has the rule {name!r}{listed} are: {allowed(known)}"


def means_rule(name: str, known: str) -> bool:
    """Whether `step.rule` or `step.rule.direction` is that rule of that step."""
    step, rest = name.split(".", 1)
    known_step, rule = known.split(".", 1)
    if re.fullmatch(re.escape(step) + r"(-\d+)?", known_step) is None:
        return False
    return rule in (_ANY_RULE, rest) or rest.startswith(f"{rule}.")
