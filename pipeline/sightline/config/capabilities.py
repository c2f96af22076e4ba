"""Who needs what of whom: each step's needs against what the steps before it give, stream by stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sightline.config.flow import arrivals
from sightline.config.problems import Key
from sightline.errors import ConfigurationError
from sightline.graph.element import Capability, Element
from sightline.graph.registry import Registry
from sightline.graph.tree import Step


def unmet_needs(steps: Sequence[Step], *, streams: Sequence[str], registry: Registry) -> Iterator[tuple[Key, str]]:
    """Each step that needs what no step before it gives, with its key path and what to put before it."""
    for key, element, given in arrivals(steps, streams=streams, adds=_given):
        for capability in sorted(element.required()):
            lacking = [stream for stream, present in given.items() if capability not in present]
            if lacking:
                where = f" on the stream {lacking[0]!r}" if len(lacking) < len(given) else ""
                remedy = _remedy([name for name in _givers(capability, registry) if name != element.name])
                yield key, f"{element.name} needs {capability}, and no step before it gives any{where}{remedy}"


def _given(element: Element) -> frozenset[Capability]:
    """What the steps after it can count on; what it lacks itself is told once, and not again of those after it."""
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
