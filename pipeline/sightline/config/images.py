"""Changed images that nobody sees: where branches of a parallel rejoin, images are those of the main line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sightline.config.problems import Key
from sightline.graph.element import Element
from sightline.graph.tree import Parallel, Step


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
