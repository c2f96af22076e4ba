"""Steps that options name by their ids, against those that stand before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sightline.config.flow import arrivals
from sightline.config.problems import Key, allowed
from sightline.graph.element import Element
from sightline.graph.registry import suggest
from sightline.graph.tree import Step, identify


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
        relied_on = set(element.relied_on())
        for below, name in dict.fromkeys([*element.named_steps(), *relied_on]):
            lacking = [stream for stream, before in reached.items() if name not in before]
            if lacking:
                yield (*key, *below), _unknown(name, lacking, reached, is_somewhere=name in elements)
            elif (below, name) in relied_on and not elements[name].searches():
                yield (*key, *below), _no_search(element, elements[name], name)


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
