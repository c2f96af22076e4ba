"""Diagrams as SVG: rounded boxes on a grid, curved arrows; readable on light and dark pages."""

from __future__ import annotations

from html import escape

from sightline.cli.diagram.model import Arrow, Box, BoxKind, Diagram

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
