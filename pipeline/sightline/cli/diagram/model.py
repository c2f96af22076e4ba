"""A pipeline as boxes and arrows, on a grid of columns and rows.

Sources stand in the first row, the batch they are gathered into below them, and the steps one below the other. The
branches of a `tee` stand in columns to the right of the steps that go on; those of a `parallel` stand side by side,
and meet again in a joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath

from sightline.graph.element import Element
from sightline.graph.fields import is_url, paths_of
from sightline.graph.source import SourceElement
from sightline.graph.tree import Parallel, PipelineDescription, Step, Tee
from sightline.redaction import redact

_LONGEST = 30


class BoxKind(StrEnum):
    """What a box stands for."""

    SOURCE = "source"
    BATCH = "batch"
    ELEMENT = "element"
    SINK = "sink"
    JOINT = "joint"


@dataclass(frozen=True, slots=True)
class Box:
    """One box: `column` may be a half, when it stands above the middle of several."""

    number: int
    kind: BoxKind
    title: str
    detail: str
    column: float
    row: int


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one box to another; `label` is the name of the branch that begins."""

    start: int
    end: int
    label: str = ""


@dataclass(slots=True)
class Diagram:
    """Boxes by number, and the arrows between them."""

    name: str
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)

    def add(self, kind: BoxKind, title: str, detail: str, *, column: float, row: int) -> Box:
        """One more box."""
        box = Box(len(self.boxes), kind, title, _short(detail), column, row)
        self.boxes.append(box)
        return box


def diagram_of(description: PipelineDescription) -> Diagram:
    """The diagram of a pipeline. Nothing in it holds a password."""
    diagram = Diagram(description.name)
    ids = {id(element): identity for identity, element in description.elements()}
    left, _ = _reach(description.steps)
    half = (len(description.sources) - 1) / 2
    spine = max(left - 0.5, half)
    sources = [
        diagram.add(BoxKind.SOURCE, name, _of_source(source), column=spine - half + number, row=0)
        for number, (name, source) in enumerate(description.sources.items())
    ]
    batch = diagram.add(BoxKind.BATCH, "batch", _of_batch(description), column=spine, row=1)
    diagram.arrows += [Arrow(source.number, batch.number) for source in sources]
    _Layout(diagram, ids).steps(description.steps, batch, spine=spine, row=2)
    return diagram


def _reach(steps: Sequence[Step]) -> tuple[float, float]:
    """How many columns steps take to the left and to the right of the middle of their own column."""
    left, right = 0.5, 0.5
    for number, step in enumerate(steps):
        if isinstance(step, Element):
            continue
        branches = sum(sum(_reach(branch)) for branch in step.branches.values())
        if isinstance(step, Parallel):
            left, right = max(left, branches / 2), max(right, branches / 2)
            continue
        rest_left, rest_right = _reach(steps[number + 1 :])
        return max(left, rest_left), max(right, rest_right + branches)
    return left, right


class _Layout:
    """Places steps below a box; `spine` is the middle of their column."""

    def __init__(self, diagram: Diagram, ids: dict[int, str]) -> None:
        self._diagram = diagram
        self._ids = ids

    def steps(self, steps: Sequence[Step], above: Box, *, spine: float, row: int, label: str = "") -> Box:
        """Place steps one below the other; returns the last box of the column."""
        for number, step in enumerate(steps):
            if isinstance(step, Element):
                above, row, label = self._element(step, above, spine, row, label), row + 1, ""
            elif isinstance(step, Parallel):
                above = self._joined(step, above, spine=spine, row=row)
                row, label = above.row + 1, ""
            else:
                rest = steps[number + 1 :]
                self._branches(step, above, left=spine + _reach(rest)[1], row=row)
                return self.steps(rest, above, spine=spine, row=row, label=label)
        return above

    def _branches(self, step: Tee | Parallel, above: Box, *, left: float, row: int) -> list[Box]:
        """Place branches side by side; returns the last box of each."""
        ends = []
        for name, branch in step.branches.items():
            before, after = _reach(branch)
            ends.append(self.steps(branch, above, spine=left + before, row=row, label=name))
            left += before + after
        return ends

    def _joined(self, step: Parallel, above: Box, *, spine: float, row: int) -> Box:
        """Place branches and, below all that belongs to them, the joint where they meet."""
        left = spine - sum(sum(_reach(branch)) for branch in step.branches.values()) / 2
        first = len(self._diagram.boxes)
        ends = self._branches(step, above, left=left, row=row)
        bottom = max(box.row for box in self._diagram.boxes[first:])
        joint = self._diagram.add(BoxKind.JOINT, "merge", "", column=spine, row=bottom + 1)
        self._diagram.arrows += [Arrow(last.number, joint.number) for last in ends]
        return joint

    def _element(self, element: Element, above: Box, column: float, row: int, label: str) -> Box:
        identity = self._ids[id(element)]
        title = element.name if identity.startswith(f"{element.name}-") else f"{element.name} ({identity})"
        kind = BoxKind.SINK if element.sink else BoxKind.ELEMENT
        box = self._diagram.add(kind, title, _of_element(element), column=column, row=row)
        self._diagram.arrows.append(Arrow(above.number, box.number, label))
        return box


def _of_source(source: SourceElement) -> str:
    for _, _, path in paths_of(source):
        return redact(path).partition("?")[0] if is_url(path) else PurePath(path).name
    return source.name


def _of_batch(description: PipelineDescription) -> str:
    size = description.batch.size
    return f"up to {size} frames" if size is not None else "frames of all streams"


def _of_element(element: Element) -> str:
    paths = [path if "{" in path else PurePath(path).name for _, _, path in paths_of(element)]
    streams = [f"streams {', '.join(element.streams)}"] if element.streams is not None else []
    return "; ".join([*paths[:1], *streams])


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
