"""Pipelines as images."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from sightline.graph import BatchOptions, Parallel, PipelineDescription, Step, Tee
from sightline.graph.diagram import BoxKind, Diagram, diagram_of, dot, mermaid, svg
from tests.unit.config.parts import Detect, Jsonl, Media, Pattern, Track

MODEL = Path("models/street.onnx")
SVG = "{http://www.w3.org/2000/svg}"


def diagram(*steps: Step, sources: int = 1) -> Diagram:
    return diagram_of(
        PipelineDescription(
            name="street",
            sources={f"cam{number}": Pattern(pattern="bars") for number in range(sources)},
            batch=BatchOptions(size=8),
            steps=steps,
        )
    )


@pytest.fixture
def branched() -> Diagram:
    return diagram(
        Parallel(branches={"people": (Detect(model=MODEL), Track()), "cars": (Detect(model=MODEL),)}),
        Tee(branches={"archive": (Jsonl(path="a"),), "alerts": (Track(), Jsonl(path="b", id="alerts"))}),
        Jsonl(path="c"),
        sources=2,
    )


def test_steps_stand_one_below_the_other() -> None:
    boxes = diagram(Detect(model=MODEL), Track(), Jsonl(path="a")).boxes

    assert [(box.title, box.row) for box in boxes] == [
        ("cam0", 0),
        ("batch", 1),
        ("detect", 2),
        ("track", 3),
        ("jsonl", 4),
    ]


def test_boxes_say_the_file_they_work_with() -> None:
    boxes = diagram(Detect(model=MODEL), Jsonl(path="out/{stream}.jsonl")).boxes

    assert [box.detail for box in boxes] == ["pattern", "up to 8 frames", "street.onnx", "out/{stream}.jsonl"]


def test_sinks_are_told_from_other_steps() -> None:
    kinds = [box.kind for box in diagram(Track(), Jsonl(path="a")).boxes]

    assert kinds == [BoxKind.SOURCE, BoxKind.BATCH, BoxKind.ELEMENT, BoxKind.SINK]


def test_branches_of_parallel_meet_again(branched: Diagram) -> None:
    joint = next(box for box in branched.boxes if box.kind is BoxKind.JOINT)

    assert [branched.boxes[arrow.start].title for arrow in branched.arrows if arrow.end == joint.number] == [
        "track",
        "detect",
    ]


def test_branches_of_a_tee_end(branched: Diagram) -> None:
    ends = {box.title for box in branched.boxes} - {branched.boxes[arrow.start].title for arrow in branched.arrows}

    assert ends == {"jsonl", "jsonl (alerts)"}


def test_no_two_boxes_share_a_place(branched: Diagram) -> None:
    places = [(box.column, box.row) for box in branched.boxes]

    assert len(set(places)) == len(places)
    assert min(column for column, _ in places) >= 0


@pytest.mark.parametrize("inner", [Tee, Parallel])
def test_nested_branches_do_not_overlap(inner: type[Tee] | type[Parallel]) -> None:
    nested = inner(branches={"x": (Track(),), "y": (Track(), Track())})
    found = diagram(
        Tee(branches={"a": (nested, Track()), "b": (Parallel(branches={"p": (nested,), "q": (Track(),)}),)})
    )

    rows: dict[int, list[float]] = {}
    for box in found.boxes:
        rows.setdefault(box.row, []).append(box.column)
    gaps = [right - left for row in rows.values() for left, right in zip(sorted(row), sorted(row)[1:], strict=False)]

    assert min(gaps) >= 1


def test_a_source_shows_no_password() -> None:
    source = Media(uri="rtsp://user:secret@10.0.0.7/main?token=abc")
    text = mermaid(diagram_of(PipelineDescription(sources={"yard": source}, steps=(Track(),))))

    assert "10.0.0.7" in text
    assert "secret" not in text
    assert "abc" not in text


def test_mermaid_names_every_branch(branched: Diagram) -> None:
    text = mermaid(branched)

    assert text.startswith("flowchart TB\n")
    assert '-->|"people"|' in text
    assert '-->|"archive"|' in text
    assert 'n0(["cam0<br/>pattern"])' in text


def test_dot_is_one_balanced_graph(branched: Diagram) -> None:
    text = dot(branched)

    assert text.startswith('digraph "street" {')
    assert text.endswith("}")
    assert 'n3 [shape=box, label="detect\\nstreet.onnx"];' in text
    assert text.count(" -> ") == len(branched.arrows)


def test_svg_is_well_formed_and_shows_every_box(branched: Diagram) -> None:
    root = ET.fromstring(svg(branched))
    titles = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "title"]

    assert titles == [box.title for box in branched.boxes]
    assert len(root.findall(f"{SVG}path")) == len(branched.arrows)


def test_svg_keeps_every_box_inside(branched: Diagram) -> None:
    root = ET.fromstring(svg(branched))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))

    for box in root.iter(f"{SVG}rect"):
        assert float(box.get("x", 0)) >= 0
        assert float(box.get("x", 0)) + float(box.get("width", 0)) <= width
        assert float(box.get("y", 0)) + float(box.get("height", 0)) <= height


@pytest.mark.parametrize("name", ['<&">', 'a"b', "#;`"])
def test_odd_names_break_no_format(name: str) -> None:
    found = diagram(Tee(branches={name: (Jsonl(path=f"{name}.jsonl"),)}))

    root = ET.fromstring(svg(found))
    labels = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "label"]

    assert labels == [name]
    assert name not in mermaid(found)
    assert dot(found).replace('\\"', "").count('"') % 2 == 0
