"""What was changed while a pipeline ran is written back to its file, and nothing else in it changes."""

from __future__ import annotations

import difflib
import resource
import stat
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from tests.unit.config.parts import Detect, Jsonl, Media, Pattern, Track, registry
from tests.unit.config.test_round_trip import descriptions

from sightline.config import ConfigurationFile, load_description
from sightline.errors import ConfigurationError, OutputError, StaleConfiguration
from sightline.graph import BatchOptions, PipelineDescription, Step, Tee

ENVIRONMENT = {"YARD_PASSWORD": "passw0rd", "SIZE": "8", "MODEL": "street.onnx"}
TEXT = """\
# A street, day and night.

name: street       # in reports
device: cpu
defaults_do_not_exist: &nothing {}
sources:
  # The gate has the best view.
  gate: &gate {uri: "http://user:${YARD_PASSWORD}@10.0.0.7/a", loop: true}   # the new camera
  yard: "http://10.0.0.8/${SIZE}"

  # Others.
  door:
    <<: *gate
    uri: http://10.0.0.9/c   # wooden
batch: {size: "${SIZE}", timeout: 40ms}
pipeline:
  # Find everything.
  - detect:
      model: "${MODEL}"       # small
      confidence: 0.4
      labels: [car, van]
  - track                     # defaults

  # Count.
  - lines:
      road: {from: [0.1, 0.6], to: [0.9, 0.6]}   # the road
      path:
        from: [0.1, 0.2]
        to:
          - 0.3   # left
          - 0.4
  - tee:
      a: [jsonl: "{stream}-a", track]
      b:
        - jsonl: {path: "{stream}-b", password: 'it''s'}

  - jsonl: {path: "{stream}-c"}
# The end.
""".replace("defaults_do_not_exist: &nothing {}\n", "")

Edit = Callable[[PipelineDescription], PipelineDescription]


def file_with(text: str, folder: Path, **options: Any) -> ConfigurationFile:
    for name in ("street.onnx", "other.onnx"):
        (folder / name).touch()
    path = folder / "p.yaml"
    path.write_text(text)
    return ConfigurationFile(path, registry=registry(), environment=ENVIRONMENT, **options)


def changed_lines(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def source(name: str, value: Media | Pattern | None) -> Edit:
    def edit(now: PipelineDescription) -> PipelineDescription:
        sources = {**now.sources, name: value}
        return now.model_copy(update={"sources": {name: one for name, one in sources.items() if one is not None}})

    return edit


def element(element_id: str, **options: Any) -> Edit:
    def edit(now: PipelineDescription) -> PipelineDescription:
        own = now.element(element_id)
        given = {**own.model_dump(by_alias=True, exclude_unset=True), **options}
        kept = {name: value for name, value in given.items() if value is not None}
        return now.with_element(element_id, type(own).model_validate(kept))

    return edit


def steps(edit: Callable[[tuple[Step, ...]], tuple[Step, ...]]) -> Edit:
    return lambda now: now.model_copy(update={"steps": edit(now.steps)})


EDITS: dict[str, tuple[Edit, list[str]]] = {
    "an option of a source": (
        source("gate", Media(uri="http://user:passw0rd@10.0.0.6/a", loop=True)),
        [
            '-  gate: &gate {uri: "http://user:${YARD_PASSWORD}@10.0.0.7/a", loop: true}   # the new camera',
            '+  gate: &gate {uri: "http://user:${YARD_PASSWORD}@10.0.0.6/a", loop: true}   # the new camera',
            "-    <<: *gate",
            '+    <<: {uri: "http://user:${YARD_PASSWORD}@10.0.0.7/a", loop: true}',
        ],
    ),
    "a bare source": (
        source("yard", Media(uri="http://10.0.0.8/8", loop=True)),
        ['-  yard: "http://10.0.0.8/${SIZE}"', '+  yard: {uri: "http://10.0.0.8/${SIZE}", loop: true}'],
    ),
    "another bare source": (
        source("yard", Media(uri="http://10.0.0.8/9")),
        ['-  yard: "http://10.0.0.8/${SIZE}"', '+  yard: "http://10.0.0.8/9"'],
    ),
    "an option of a block": (
        source("door", Media(uri="http://10.0.0.10/c", loop=True)),
        ["-    uri: http://10.0.0.9/c   # wooden", '+    uri: "http://10.0.0.10/c"   # wooden'],
    ),
    "an option that was merged in": (
        source("door", Media(uri="http://10.0.0.9/c", loop=False)),
        ["+    loop: false"],
    ),
    "a new source": (
        source("roof", Media(uri="http://user:passw0rd@10.0.0.11/$1")),
        ['+  roof: {uri: "http://user:${YARD_PASSWORD}@10.0.0.11/$$1"}'],
    ),
    "a source less": (source("yard", None), ['-  yard: "http://10.0.0.8/${SIZE}"']),
    "the batch": (
        lambda now: now.model_copy(update={"batch": BatchOptions(size=8, timeout=2)}),
        ['-batch: {size: "${SIZE}", timeout: 40ms}', '+batch: {size: "${SIZE}", timeout: 2s}'],
    ),
    "an option of a step": (element("detect-1", confidence=0.5), ["-      confidence: 0.4", "+      confidence: 0.5"]),
    "one more option": (element("detect-1", every=3), ["+      every: 3"]),
    "an option less": (element("detect-1", labels=None), ["-      labels: [car, van]"]),
    "an entry of a list": (
        element("detect-1", labels=["car", "bus"]),
        ["-      labels: [car, van]", "+      labels: [car, bus]"],
    ),
    "an entry more": (
        element("detect-1", labels=["lorry", "car", "van", "it is: a bus"]),
        ["-      labels: [car, van]", '+      labels: [lorry, car, van, "it is: a bus"]'],
    ),
    "an option of a step without": (
        element("track-1", max_lost="2s"),
        ["-  - track                     # defaults", "+  - track: {max_lost: 2s}                     # defaults"],
    ),
    "a step in a branch": (
        element("jsonl-2", password="it isn't"),
        [
            "-        - jsonl: {path: \"{stream}-b\", password: 'it''s'}",
            "+        - jsonl: {path: \"{stream}-b\", password: 'it isn''t'}",
        ],
    ),
    "a bare step in a branch": (
        element("jsonl-1", path="{stream}-x"),
        ['-      a: [jsonl: "{stream}-a", track]', '+      a: [jsonl: "{stream}-x", track]'],
    ),
    "a step more": (
        steps(lambda now: (*now[:2], Jsonl(path="new"), *now[2:])),
        ["+  - jsonl: {path: new}"],
    ),
    "a step in front": (
        steps(lambda now: (Detect(model=Path("other.onnx"), id="first"), *now)),
        ["+  - detect: {id: first, model: other.onnx}"],
    ),
    "a step at the end": (steps(lambda now: (*now, Track())), ["+  - track"]),
    "a step less": (steps(lambda now: now[:-1]), ['-  - jsonl: {path: "{stream}-c"}']),
    "a branch more": (
        steps(lambda now: (*now[:3], Tee(branches={**now[3].branches, "c": (Track(),)}), now[4])),  # type: ignore[union-attr]
        ["+      c: [track]"],
    ),
    "the device": (lambda now: now.model_copy(update={"device": "auto"}), ["-device: cpu", "+device: auto"]),
    "an option of the pipeline": (
        lambda now: now.model_copy(update={"keep_running": True}),
        ["+keep_running: true"],
    ),
}


@pytest.mark.parametrize(("edit", "diff"), EDITS.values(), ids=EDITS)
def test_only_what_has_changed_is_written(
    edit: Edit, diff: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = file_with(TEXT, tmp_path)
    wanted = edit(file.read())

    assert file.write(wanted)

    written = file.path.read_text()
    assert sorted(changed_lines(TEXT, written)) == sorted(diff)
    assert "passw0rd" not in written
    read = load_description(file.path, registry=registry(), environment=ENVIRONMENT)
    assert plain(read) == plain(wanted)
    assert not file.write(wanted)


def plain(description: PipelineDescription) -> Any:
    return description.to_plain() | {"pipeline": str(description.to_plain()["pipeline"]).replace(f"{Path.cwd()}/", "")}


def test_a_file_that_is_as_wanted_is_not_touched(tmp_path: Path) -> None:
    file = file_with(TEXT, tmp_path)
    description = file.read()
    before = file.path.stat()

    assert not file.write(description)

    assert file.path.stat() == before


def test_several_changes_after_another_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = file_with(TEXT, tmp_path)
    description = file.read()
    for name in ("a bare source", "a step more", "one more option", "the batch"):
        description = EDITS[name][0](description)
        file.write(description)

    assert plain(load_description(file.path, registry=registry(), environment=ENVIRONMENT)) == plain(description)
    assert file.description == description


def test_a_file_that_somebody_else_has_changed_is_refused(tmp_path: Path) -> None:
    file = file_with(TEXT, tmp_path)
    wanted = EDITS["a step less"][0](file.read())
    other = TEXT.replace("0.4", "0.45")
    file.path.write_text(other)

    with pytest.raises(StaleConfiguration, match=r"p\.yaml has changed since it was read"):
        file.write(wanted)

    assert file.path.read_text() == other


def test_a_file_that_was_not_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="was not read"):
        file_with(TEXT, tmp_path).write(PipelineDescription(sources={}))


def test_what_the_command_line_gives_is_not_written_and_what_it_hides_is_refused(tmp_path: Path) -> None:
    file = file_with(TEXT, tmp_path, overrides=["batch.timeout=1s"], device="cpu")
    description = file.read()

    file.write(EDITS["a step less"][0](description))
    assert changed_lines(TEXT, file.path.read_text()) == EDITS["a step less"][1]
    with pytest.raises(ConfigurationError, match="the change of batch: what the command line gives"):
        file.write(EDITS["the batch"][0](EDITS["a step less"][0](description)))


def test_a_change_that_the_file_would_not_load_with_is_refused(tmp_path: Path) -> None:
    file = file_with(TEXT, tmp_path)
    (tmp_path / "model.txt").touch()
    gone = element("detect-1", model=tmp_path / "model.txt")(file.read())

    with pytest.raises(ConfigurationError, match=r"would hold mistakes after the change, and stays: .*no ONNX model"):
        file.write(gone)

    assert file.path.read_text() == TEXT


def test_rights_and_a_link_stay_and_nothing_is_left_beside(tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    file_with(TEXT, folder)
    (folder / "p.yaml").chmod(0o640)
    link = tmp_path / "p.yaml"
    link.symlink_to(folder / "p.yaml")
    (tmp_path / "street.onnx").touch()
    file = ConfigurationFile(link, registry=registry(), environment=ENVIRONMENT)

    file.write(EDITS["a step less"][0](file.read()))

    assert link.is_symlink()
    assert stat.S_IMODE((folder / "p.yaml").stat().st_mode) == 0o640
    assert {one.name for one in folder.iterdir()} == {"other.onnx", "p.yaml", "street.onnx"}


def test_a_file_that_cannot_be_written_stays_and_nothing_is_left_beside(tmp_path: Path) -> None:
    file = file_with(TEXT, tmp_path)
    wanted = EDITS["a step less"][0](file.read())
    before, limits = set(tmp_path.iterdir()), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))

    try:
        with pytest.raises(OutputError, match=r"p\.yaml cannot be written: File too large"):
            file.write(wanted)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert file.path.read_text() == TEXT
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("ends", [False, True])
def test_line_breaks_and_marks_stay(newline: str, mark: str, ends: bool, tmp_path: Path) -> None:
    text = mark + newline.join(["sources: {yard: {pattern: bars}}", "pipeline:", "- detect:", "    model: street.onnx"])
    end = newline if ends else ""
    file = file_with("", tmp_path)
    file.path.write_bytes((text + end).encode())
    wanted = steps(lambda now: (*now, Track()))(element("detect-1", every=2)(file.read()))

    file.write(wanted)

    more = newline.join(["", "    every: 2", "- track"])
    assert file.path.read_bytes().decode() == text + more + end


HEAD = "sources: {a: {pattern: bars}}\n"
FOUND = "- detect: {model: street.onnx}\n"
NOTATIONS: dict[str, tuple[str, Edit, str]] = {
    "a flow": (
        HEAD + "pipeline: [detect: {model: street.onnx}, track, jsonl: x]\n",
        steps(lambda now: (*now[:1], now[2], Jsonl(path="y"))),
        HEAD + 'pipeline: [detect: {model: street.onnx}, jsonl: x, jsonl: {path: "y"}]\n',
    ),
    "no sources": (
        f"keep_running: true\nsources: # none\npipeline:\n{FOUND}",
        source("a", Pattern(pattern="noise")),
        f"keep_running: true\nsources: {{a: {{pattern: noise}}}} # none\npipeline:\n{FOUND}",
    ),
    "the last source": (
        f"keep_running: true\nsources:\n  a:\n    pattern: bars\npipeline:\n{FOUND}",
        source("a", None),
        f"keep_running: true\nsources: {{}}\npipeline:\n{FOUND}",
    ),
    "a name with a colon": (
        HEAD + f"pipeline:\n{FOUND}- track: # why\n",
        element("track-1", max_lost="3s"),
        HEAD + f"pipeline:\n{FOUND}- track: {{max_lost: 3s}} # why\n",
    ),
    "several lines of a flow": (
        HEAD + f"pipeline:\n{FOUND}- track: {{\n    # why\n    max_lost: 1s, # now\n  }}\n",
        element("track-1", max_lost="3s", draw_trail=True),
        HEAD + f"pipeline:\n{FOUND}- track: {{\n    # why\n    max_lost: 3s, draw_trail: true, # now\n  }}\n",
    ),
    "a text in a block": (
        HEAD + "pipeline:\n- jsonl: |-\n    x\n\n# more\n- jsonl: z\n",
        element("jsonl-1", path="y"),
        HEAD + 'pipeline:\n- jsonl: "y"\n\n# more\n- jsonl: z\n',
    ),
    "an anchor of a text": (
        HEAD + "pipeline:\n- jsonl: &p x\n- jsonl: {path: y, password: *p}\n",
        element("jsonl-1", path="z"),
        HEAD + "pipeline:\n- jsonl: z\n- jsonl: {path: y, password: x}\n",
    ),
    "an alias": (
        HEAD + "pipeline:\n- jsonl: &p {path: x, password: q}\n- jsonl: *p # two\n",
        element("jsonl-2", path="z"),
        HEAD + "pipeline:\n- jsonl: &p {path: x, password: q}\n- jsonl: {path: z, password: q} # two\n",
    ),
    "an anchor that goes": (
        HEAD + f"pipeline:\n{FOUND}- &t track\n- *t\n",
        steps(lambda now: (now[0], now[2])),
        HEAD + f"pipeline:\n{FOUND}- &t track\n",
    ),
    "another order": (
        HEAD + f"pipeline:\n{FOUND}# one\n- jsonl: {{path: x}} # x\n- track\n",
        steps(lambda now: (now[0], now[2], now[1])),
        HEAD + f"pipeline:\n{FOUND}- track\n# one\n- jsonl: {{path: x}} # x\n",
    ),
    "JSON": (
        '{"sources": {"a": {"pattern": "bars"}}, "pipeline": [{"jsonl": "x"}]}',
        element("jsonl-1", password="p"),
        '{"sources": {"a": {"pattern": "bars"}}, "pipeline": [{"jsonl": {path: "x", password: p}}]}',
    ),
    "options that are gathered": (
        HEAD + f"pipeline:\n{FOUND}- track\n- lines: # here\n    a: {{from: [0, 0], to: [1, 1]}}\n",
        element("lines-1", lines={"a": {"from": [0, 0.5], "to": [1, 1]}}),
        HEAD + f"pipeline:\n{FOUND}- track\n- {{lines: {{lines: {{a: {{from: [0.0, 0.5], to: [1.0, 1.0]}}}}}}}}\n",
    ),
}


@pytest.mark.parametrize(("text", "edit", "expected"), NOTATIONS.values(), ids=NOTATIONS)
def test_other_notations_are_edited_as_well(text: str, edit: Edit, expected: str, tmp_path: Path) -> None:
    file = file_with(text, tmp_path)
    wanted = edit(file.read())

    file.write(wanted)

    assert file.path.read_text() == expected
    assert load_description(file.path, registry=registry()) == wanted


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(descriptions, descriptions, st.data())
def test_any_change_is_written_and_comments_of_what_stays_survive(
    tmp_path: Path, before: PipelineDescription, other: PipelineDescription, data: st.DataObject
) -> None:
    text = data.draw(st.sampled_from([as_block, as_flow]))(before)
    file = file_with(text, tmp_path)
    read = file.read()
    wanted = data.draw(mixtures(read, other))

    file.write(wanted)

    assert load_description(file.path, registry=registry()) == wanted
    written = file.path.read_text()
    assert "# the first line" in written
    if wanted.steps[:1] == read.steps[:1]:
        assert "# above the first step" in written or "pipeline: [" in text


def mixtures(before: PipelineDescription, other: PipelineDescription) -> st.SearchStrategy[PipelineDescription]:
    """Descriptions that take some of their parts from another one."""

    def mixed(names: set[str], kept: int, taken: int) -> PipelineDescription:
        update: dict[str, Any] = {name: getattr(other, name) for name in names}
        if "steps" not in names:
            update["steps"] = (*before.steps[:2], *other.steps[2 : 2 + taken], *before.steps[2 : 2 + kept])
        if "sources" not in names:
            update["sources"] = {**before.sources, **dict(list(other.sources.items())[:taken])}
        return before.model_copy(update=update)

    return st.builds(
        mixed, st.sets(st.sampled_from(["sources", "batch", "steps"])), st.integers(0, 3), st.integers(0, 2)
    )


def as_block(description: PipelineDescription) -> str:
    written = StringIO()
    YAML().dump(CommentedMap(description.to_plain()), written)
    return "# the first line\n" + written.getvalue().replace("pipeline:\n", "pipeline:\n# above the first step\n")


def as_flow(description: PipelineDescription) -> str:
    from sightline.config.text_tree import flow

    plain = escaped(description.to_plain())
    lines = [f"{name}: {flow(value)}" for name, value in plain.items() if name != "pipeline"]
    steps = [f"  - {flow(step)}  # step {number}" for number, step in enumerate(plain["pipeline"])]
    return "\n".join(["# the first line", *lines, "pipeline:", "  # above the first step", *steps])


def escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: escaped(one) for name, one in value.items()}
    return [escaped(one) for one in value] if isinstance(value, list) else value
