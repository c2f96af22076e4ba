"""Steps that hide parts of frames, such as `privacy`: behind which of them a frame lacks all that is hidden."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sightline.graph.element import Element
from sightline.graph.tree import PipelineDescription, Step

Branches = Mapping[str, tuple[str, ...]]
"""The branches that each step stands in, from the outermost; none on the main line."""


def may_hide(element: Element) -> bool:
    """Whether a step changes images, and not only to draw."""
    return element.changes_images and not element.draws_only


def branches_of(description: PipelineDescription) -> Branches:
    """Return the branches of each step by id, in the order of the description."""
    ids = iter([name for name, _ in description.elements()])
    found: dict[str, tuple[str, ...]] = {}

    def walk(steps: Sequence[Step], branches: tuple[str, ...]) -> None:
        for number, step in enumerate(steps):
            if isinstance(step, Element):
                found[next(ids)] = branches
                continue
            for name, branch in step.branches.items():
                walk(branch, (*branches, f"{number}/{name}"))

    walk(description.steps, ())
    return found


def shown_behind(hiding: Iterable[str], branches: Branches) -> tuple[str | None, str | None]:
    """Return the last of the steps that hide something, and one of them whose work is not in the frames behind it.

    None for the first: nothing is hidden. None for the second: the frames behind the last step lack all that is hidden.
    """
    names = list(hiding)
    if not names:
        return None, None
    last = names[-1]
    apart = (name for name in names if branches[last][: len(branches[name])] != branches[name])
    return last, next(apart, None)
