"""A description as plain data, and back."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from tests.unit.config.parts import Detect, Jsonl, Line, Lines, Media, Pattern, Track, registry

from sightline.config import (
    InvalidConfiguration,
    description_from,
    load_description,
    parse_steps,
    parts_from,
    source_from,
)
from sightline.graph import Parallel, PipelineDescription, Step, Tee
from sightline.graph.masked import masked_pipeline
from sightline.graph.tree import BatchOptions

texts = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=12)
durations = st.integers(0, 10**13).map("{}ns".format)
fractions = st.floats(0, 1)
points = st.tuples(fractions, fractions)

detects = st.builds(
    Detect,
    model=st.just(Path("/dev/null")),
    confidence=fractions,
    every=st.integers(1, 100),
    fit=st.sampled_from(["letterbox", "stretch"]),
    labels=st.none() | st.tuples(texts, texts),
)
tracks = st.builds(Track, max_lost=durations, draw_trail=st.booleans())
line = st.builds(lambda start, end: Line.model_validate({"from": start, "to": end}), points, points)
lines = st.builds(Lines, lines=st.dictionaries(texts, line, min_size=1, max_size=2))
sinks = st.builds(Jsonl, path=st.just("{stream}"), password=st.none() | texts, stall_timeout=durations)
bare = st.just(Jsonl(path="{stream}"))


def nested(inner: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    branches = st.dictionaries(texts, st.lists(inner, min_size=1, max_size=2).map(tuple), min_size=1, max_size=2)
    return st.builds(Tee, branches=branches) | st.builds(Parallel, branches=branches)


steps: st.SearchStrategy[Step] = st.recursive(detects | tracks | lines | sinks | bare, nested, max_leaves=4)
sources = st.builds(Media, uri=st.just("http://10.0.0.7/a"), loop=st.booleans()) | st.builds(
    Pattern, pattern=st.sampled_from(["bars", "noise"]), frames=st.integers(1, 100)
)
descriptions = st.builds(
    PipelineDescription,
    name=st.just("street"),
    device=st.just("cpu"),
    sources=st.dictionaries(st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True), sources, min_size=1, max_size=2),
    batch=st.builds(BatchOptions, size=st.none() | st.integers(1, 64), timeout=durations),
    # A detector and a tracker come first, so that what follows has what it needs.
    steps=st.lists(steps, max_size=3).map(lambda more: (Detect(model=Path("/dev/null")), Track(), *more)),
)


@settings(max_examples=60)
@given(descriptions)
def test_plain_data_load_back_to_an_equal_description(description: PipelineDescription) -> None:
    assert description_from(description.to_plain(), registry=registry()) == description


def test_a_source_keeps_what_tells_its_kind() -> None:
    given = {"sources": {"a": {"pattern": {"frames": 9}}}, "pipeline": [{"jsonl": "a.jsonl"}]}
    description = description_from(given)

    plain, shown = description.to_plain(), masked_pipeline(description)

    assert plain["sources"]["a"] == shown["sources"]["a"] == {"pattern": "bars", "frames": 9}
    assert description_from(plain) == description


@settings(max_examples=40)
@given(st.text(max_size=60))
def test_no_text_makes_the_loader_fail_in_any_other_way(text: str) -> None:
    with pytest.raises(InvalidConfiguration):
        _load_text(text)


@settings(max_examples=80)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | texts,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["sources", "pipeline", "batch", "name", "detect", "tee", "uri", "gate", "id"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_data_makes_the_loader_fail_in_any_other_way(data: object) -> None:
    with pytest.raises(InvalidConfiguration):
        description_from({"sources": data, "pipeline": data, "batch": data, "x": data}, registry=registry())


def _load_text(text: str) -> None:
    from sightline.config.yaml_tree import parse

    document = parse(text, name="p.yaml")
    raise InvalidConfiguration(document.problems)


def test_a_written_file_loads_back(tmp_path: Path) -> None:
    (tmp_path / "street.onnx").touch()
    description = PipelineDescription(
        sources={"gate": Pattern(pattern="bars")},
        steps=(Detect(model=tmp_path / "street.onnx"), Tee(branches={"a": (Track(max_lost=40_000_000),)})),
    )
    written = StringIO()
    YAML().dump(description.to_plain(), written)
    (tmp_path / "p.yaml").write_text(written.getvalue())

    assert load_description(tmp_path / "p.yaml", registry=registry()) == description


def test_data_are_not_filled_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "abc")
    plain = {"sources": {"p": {"pattern": "bars"}}, "pipeline": [{"jsonl": {"path": "a", "password": "${PW}$$"}}]}

    assert description_from(plain, registry=registry()).steps[0] == Jsonl(path="a", password="${PW}$$")


@pytest.mark.parametrize("value", ["gate.mp4", Path("gate.mp4"), {"uri": "gate.mp4"}, Media(uri="gate.mp4")])
def test_python_gives_a_source_in_any_form(value: str | Path | dict[str, object] | Media) -> None:
    assert source_from(value, registry=registry()) == Media(uri="gate.mp4")


def test_python_is_told_what_is_wrong_with_a_source() -> None:
    with pytest.raises(
        InvalidConfiguration, match=r"^sources\.gate\.lop: there is no such option; did you mean 'loop'"
    ):
        source_from({"uri": "gate.mp4", "lop": True}, registry=registry(), name="gate")


def test_python_may_give_steps_as_yaml_holds_them() -> None:
    found = parse_steps([{"jsonl": "a"}, "track", {"tee": {"x": [{"jsonl": {"path": "b"}}]}}], registry=registry())

    assert found == (Jsonl(path="a"), Track(), Tee(branches={"x": (Jsonl(path="b"),)}))


def test_python_is_told_what_is_wrong_with_a_step() -> None:
    with pytest.raises(
        InvalidConfiguration, match=r"^pipeline\.0\.trak: there is no element 'trak'; did you mean 'track'"
    ):
        parse_steps(["trak"], registry=registry())


def test_python_is_told_every_mistake_in_sources_and_steps_with_its_place() -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        parts_from({"a": 5, "b": {"pattern": "counter"}}, [{"callback": {"function": "a:b"}}, "trak", object])

    assert [str(problem).partition(": ")[0] for problem in caught.value.problems] == [
        "sources.a",
        "pipeline.1.trak",
        "pipeline.2",
    ]


@pytest.mark.parametrize(
    ("sources", "steps", "told"),
    [
        ("gate.mp4", [], 'sources: must give each stream a name: {"gate": "gate.mp4"}'),
        ({"gate": Media}, [], r"sources.gate: Media is a class: make a value of it, Media(...)"),
        ({}, [Track], "pipeline.0: Track is a class: make a value of it, Track(...)"),
        ({}, Track(), "pipeline: must be a list of steps"),
        ({}, "track", "pipeline: must be a list of steps"),
    ],
)
def test_python_is_told_what_form_sources_and_steps_have(sources: object, steps: object, told: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        parts_from(sources, steps)

    assert str(caught.value) == told
