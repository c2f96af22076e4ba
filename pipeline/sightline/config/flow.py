"""What reaches a step: all that the steps before it add, stream by stream, into tees and through parallels."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TypeVar

from sightline.config.problems import Key
from sightline.graph.element import Element
from sightline.graph.streams import matching
from sightline.graph.tree import Parallel, Step

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
