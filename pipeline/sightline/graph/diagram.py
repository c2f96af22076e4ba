"""Draw a pipeline as a diagram: Mermaid, DOT or SVG.

Sources stand in the first row, the batch they are gathered into below them, and the steps one below the other. The
branches of a `tee` stand in columns to the right of the steps that go on; those of a `parallel` stand side by side,
and meet again in a joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
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


BOX_WH = (220, 52)
GAP_WH = (28, 40)
MARGIN = 24
_JOINT_WH = (76, 28)

_STYLE = """
    .box { stroke-width: 1.5; }
    .source { fill: #e3f0ff; stroke: #2f6fb3; }
    .batch { fill: #f1f3f5; stroke: #868e96; stroke-dasharray: 5 3; }
    .element { fill: #ffffff; stroke: #495057; }
    .sink { fill: #e6f7ec; stroke: #2b8a3e; }
    .joint { fill: #f1f3f5; stroke: #868e96; }
    .arrow { fill: none; stroke: #868e96; stroke-width: 1.5; marker-end: url(#head); }
    .title { font: 600 14px system-ui, sans-serif; fill: #212529; text-anchor: middle; }
    .detail { font: 12px system-ui, sans-serif; fill: #5c636a; text-anchor: middle; }
    .label { font: italic 12px system-ui, sans-serif; fill: #5c636a; }
"""


_HEAD = """  <defs>
    <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
      <path d="M0 0 L8 4 L0 8 z" fill="#868e96"/>
    </marker>
  </defs>"""


def svg(diagram: Diagram) -> str:
    """The diagram as an SVG document."""
    width = 2 * MARGIN + BOX_WH[0] + max(box.column for box in diagram.boxes) * (BOX_WH[0] + GAP_WH[0])
    height = 2 * MARGIN + BOX_WH[1] + max(box.row for box in diagram.boxes) * (BOX_WH[1] + GAP_WH[1])
    size = f'width="{width:g}" height="{height:g}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:g} {height:g}" role="img">',
        f"  <title>{escape(diagram.name)}</title>",
        f"  <style>{_STYLE}  </style>",
        _HEAD,
        f'  <rect {size} rx="12" fill="#fbfcfd"/>',
        *(_arrow(arrow, diagram) for arrow in diagram.arrows),
        *(_box(box) for box in diagram.boxes),
        "</svg>",
    ]
    return "\n".join(parts)


def _size_wh(box: Box) -> tuple[int, int]:
    return _JOINT_WH if box.kind is BoxKind.JOINT else BOX_WH


def _middle(box: Box) -> tuple[float, float]:
    x = MARGIN + BOX_WH[0] / 2 + box.column * (BOX_WH[0] + GAP_WH[0])
    return x, MARGIN + BOX_WH[1] / 2 + box.row * (BOX_WH[1] + GAP_WH[1])


def _box(box: Box) -> str:
    (x, y), (width, height) = _middle(box), _size_wh(box)
    radius = height / 2 if box.kind in (BoxKind.SOURCE, BoxKind.JOINT) else 8
    rectangle = (
        f'<rect class="box {box.kind}" x="{x - width / 2:g}" y="{y - height / 2:g}" '
        f'width="{width}" height="{height}" rx="{radius:g}"/>'
    )
    title = f'<text class="title" x="{x:g}" y="{y + (-3 if box.detail else 5):g}">{escape(box.title)}</text>'
    detail = f'<text class="detail" x="{x:g}" y="{y + 16:g}">{escape(box.detail)}</text>' if box.detail else ""
    return f"  <g>{rectangle}{title}{detail}</g>"


def _arrow(arrow: Arrow, diagram: Diagram) -> str:
    start, end = diagram.boxes[arrow.start], diagram.boxes[arrow.end]
    (x1, y1), (x2, y2) = _middle(start), _middle(end)
    y1, y2 = y1 + _size_wh(start)[1] / 2, y2 - _size_wh(end)[1] / 2
    bend = GAP_WH[1] * 0.6
    bent = y2 - GAP_WH[1] if end.kind is BoxKind.JOINT else y1
    curve = f"M{x1:g} {y1:g} L{x1:g} {bent:g} C{x1:g} {bent + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"
    side, anchor = (-10, "end") if x2 < x1 else (10, "start")
    label = f'<text class="label" x="{x2 + side:g}" y="{y2 - 8:g}" text-anchor="{anchor}">{escape(arrow.label)}</text>'
    return f'  <path class="arrow" d="{curve}"/>{label if arrow.label else ""}'


_MERMAID_SHAPES = {
    BoxKind.SOURCE: ('(["', '"])'),
    BoxKind.BATCH: ('{{"', '"}}'),
    BoxKind.ELEMENT: ('["', '"]'),
    BoxKind.SINK: ('[/"', '"/]'),
    BoxKind.JOINT: ('(("', '"))'),
}
_DOT_SHAPES = {
    BoxKind.SOURCE: "oval",
    BoxKind.BATCH: "hexagon",
    BoxKind.ELEMENT: "box",
    BoxKind.SINK: "parallelogram",
    BoxKind.JOINT: "circle",
}


def mermaid(diagram: Diagram) -> str:
    """A flow chart for Mermaid (https://mermaid.js.org)."""
    lines = ["flowchart TB"]
    for box in diagram.boxes:
        opening, closing = _MERMAID_SHAPES[box.kind]
        lines.append(f"  n{box.number}{opening}{'<br/>'.join(_mermaid_text(text) for text in _texts(box))}{closing}")
    for arrow in diagram.arrows:
        label = f'|"{_mermaid_text(arrow.label)}"|' if arrow.label else ""
        lines.append(f"  n{arrow.start} -->{label} n{arrow.end}")
    return "\n".join(lines)


def dot(diagram: Diagram) -> str:
    """A directed graph for Graphviz (https://graphviz.org)."""
    lines = [
        f"digraph {_dot_text(diagram.name)} {{",
        '  node [fontname="sans-serif"];',
        '  edge [fontname="sans-serif"];',
    ]
    for box in diagram.boxes:
        label = "\\n".join(_dot_text(text)[1:-1] for text in _texts(box))
        lines.append(f'  n{box.number} [shape={_DOT_SHAPES[box.kind]}, label="{label}"];')
    for arrow in diagram.arrows:
        label = f" [label={_dot_text(arrow.label)}]" if arrow.label else ""
        lines.append(f"  n{arrow.start} -> n{arrow.end}{label};")
    return "\n".join([*lines, "}"])


def _texts(box: Box) -> list[str]:
    return [text for text in (box.title, box.detail) if text]


def _mermaid_text(text: str) -> str:
    return "".join(f"#{ord(character)};" if character in '#"<>&;`' else character for character in text)


def _dot_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
