"""Diagrams in the languages of Mermaid and Graphviz."""

from __future__ import annotations

from sightline.cli.diagram.model import Box, BoxKind, Diagram

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
