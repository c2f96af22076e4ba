"""Who needs what of whom: each step's needs against what the steps before it give, stream by stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sightline.config.problems import Key
from sightline.errors import ConfigurationError
from sightline.graph.element import Capability, Element
from sightline.graph.registry import Registry
from sightline.graph.streams import matching
from sightline.graph.tree import Parallel, Step

Given = dict[str, frozenset[Capability]]
"""By stream, what the steps so far have found on it."""


def unmet_needs(steps: Sequence[Step], *, streams: Sequence[str], registry: Registry) -> Iterator[tuple[Key, str]]:
    """Each step that needs what no step before it gives, with its key path and what to put before it."""
    walker = _Walker(registry)
    walker.steps(steps, dict.fromkeys(streams, frozenset()), ("pipeline",))
    yield from walker.found


class _Walker:
    def __init__(self, registry: Registry) -> None:
        self.found: list[tuple[Key, str]] = []
        self._registry = registry

    def steps(self, steps: Sequence[Step], given: Mapping[str, frozenset[Capability]], key: Key) -> Given:
        now = dict(given)
        for number, step in enumerate(steps):
            if isinstance(step, Element):
                self._element(step, now, (*key, number, step.name))
                continue
            ends = [self.steps(branch, now, (*key, number, step.name, name)) for name, branch in step.branches.items()]
            if isinstance(step, Parallel):
                now = {stream: frozenset().union(*(end[stream] for end in ends)) for stream in now}
        return now

    def _element(self, element: Element, now: Given, key: Key) -> None:
        on = matching(element.streams, now)
        for capability in sorted(element.needs):
            lacking = [stream for stream in on if capability not in now[stream]]
            if lacking:
                self._lacks(element, capability, lacking if len(lacking) < len(on) else [], key)
        for stream in on:
            now[stream] |= element.provided() | element.needs

    def _lacks(self, element: Element, capability: Capability, streams: Sequence[str], key: Key) -> None:
        where = f" on the stream {streams[0]!r}" if streams else ""
        givers = self._givers(capability)
        remedy = f": put {' or '.join(givers)} before it" if givers else ""
        self.found.append((key, f"{element.name} needs {capability}, and no step before it gives any{where}{remedy}"))

    def _givers(self, capability: Capability) -> list[str]:
        names = []
        for name in self._registry.element_names:
            try:
                element = self._registry.element(name)
            except ConfigurationError:
                continue
            if capability in element.gives and capability not in element.needs:
                names.append(name)
        return names
