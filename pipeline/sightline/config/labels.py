"""Labels that options name, against those that the steps before can find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sightline.config.flow import arrivals
from sightline.config.problems import Key, allowed
from sightline.graph.element import Element
from sightline.graph.registry import suggest
from sightline.graph.tree import Step, identify

_UNTOLD = None
"""Stands among labels for all those that nobody can tell before the pipeline runs."""


def unknown_labels(steps: Sequence[Step], *, streams: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """Each label that a step waits for in vain, with its key path and the labels that can reach the step.

    Nothing is said of a step that any object of unknown label, or none at all, can reach on one of its streams. No
    element is asked what it finds unless some option names a label: to know it may mean to read a model file.
    """
    if not any(True for _, element in identify(tuple(steps)) for _ in element.wanted_labels()):
        return
    for key, element, reached in arrivals(steps, streams=streams, adds=_found):
        found = frozenset[str | None]().union(*reached.values())
        known = sorted(label for label in found if label is not _UNTOLD)
        if known and _UNTOLD not in found:
            for below, label in element.wanted_labels():
                if label not in found:
                    yield (*key, *below), _message(label, known)


def _found(element: Element) -> frozenset[str | None]:
    labels = element.found_labels()
    return frozenset((_UNTOLD,)) if labels is None else labels


def _message(label: str, known: Sequence[str]) -> str:
    near = suggest(label, known)
    return f"no step before it finds {label!r}{f'{near} They' if near else '; they'} find: {allowed(known)}"
