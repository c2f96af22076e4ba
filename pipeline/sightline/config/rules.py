"""Rules that options name, against those of the steps before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sightline.config.flow import arrivals
from sightline.config.problems import Key, allowed
from sightline.graph.element import Capability, Element
from sightline.graph.registry import suggest
from sightline.graph.tree import Step, identify

_ANY = "*"
"""Stands in the place of a rule for all those that nobody can tell before the pipeline runs."""


def unknown_rules(steps: Sequence[Step], *, streams: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """Each rule that a step waits for in vain, with its key path and the rules whose events reach the step.

    That no events reach it at all is told as an unmet need.
    """
    ids = iter(identify(tuple(steps)))

    def own(element: Element) -> frozenset[str]:
        identity, same = next(ids)
        assert same is element
        if Capability.EVENTS not in element.provided():
            return frozenset()
        names = element.found_rules()
        return frozenset(f"{identity}.{name}" for name in ([_ANY] if names is None else names))

    for key, element, reached in arrivals(steps, streams=streams, adds=own):
        known = sorted(frozenset[str]().union(*reached.values()))
        for below, name in element.wanted_rules():
            if known and not any(_means(name, one) for one in known):
                near = suggest(name, known)
                listed = f"{near} Rules" if near else "; rules"
                yield (*key, *below), f"no step before it has the rule {name!r}{listed} are: {allowed(known)}"


def _means(name: str, known: str) -> bool:
    """Whether `step.rule` or `step.rule.direction` is that rule of that step."""
    step, rest = name.split(".", 1)
    known_step, rule = known.split(".", 1)
    if re.fullmatch(re.escape(step) + r"(-\d+)?", known_step) is None:
        return False
    return rule in (_ANY, rest) or rest.startswith(f"{rule}.")
