"""Nothing that comes by the API is written outside the output folder, and nothing there that is no result."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.config import parse_steps, source_from
from sightline.errors import ConfigurationError, SightlineError
from sightline.graph import Outputs, PipelineDescription, Registry
from sightline.graph.fields import PathRole, role_of
from sightline.server.policy import Policy
from tests.integration.server.hostile_paths import OTHER_FILES, OUTSIDE, PLAIN, STREAMS, WORKING

BARS = source_from({"pattern": "bars", "size": [64, 48], "frames": 3})
BEFORE = PipelineDescription(sources={"gate": BARS})
MODELS = Path("models").absolute()
STEPS: Mapping[str, tuple[str, str, Mapping[str, object]]] = {
    "coco": ("path", ".json", {}),
    "csv": ("path", ".csv", {}),
    "describe": ("path", ".db", {"url": "http://broker/v1", "model": "m"}),
    "drift": ("write", ".json", {}),
    "harvest": ("path", "", {}),
    "heat_map": ("path", ".npy", {"a": {}}),
    "heat_map/image": ("image", ".png", {"a": {}}),
    "jsonl": ("path", ".jsonl", {}),
    "kitti": ("path", ".txt", {}),
    "mot": ("path", ".txt", {}),
    "mqtt": ("image_path", ".jpg", {"url": "mqtt://broker", "send": "events", "image": "frame"}),
    "parquet": ("path", "", {}),
    "publish": ("hls", ".m3u8", {}),
    "record": ("path", ".mp4", {}),
    "rerun": ("path", ".rrd", {}),
    "search_index": ("path", ".db", {"encoder": str(MODELS / "search")}),
    "snapshots": ("path", ".jpg", {"rules": ["lines.a"]}),
    "sqlite": ("path", ".db", {}),
    "video": ("path", ".mp4", {}),
}
"""Every step with a path that is written: the option, its suffix, and other options that it needs; what stands behind
a stroke tells several options of a step apart.
"""
FOLDERS = {"harvest", "parquet"}
"""Steps whose path is a folder."""
POLICY = Policy(hosts={"broker"}, files=(MODELS,))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output folder, beside a folder in which nothing may be written."""
    for name in ("root", "outside"):
        (tmp_path / name).mkdir()
    folder = tmp_path / "root"
    (folder / "links").symlink_to(tmp_path / "outside")
    (folder / "chain").symlink_to("links")
    for suffix in {suffix for _, suffix, _ in STEPS.values()}:
        (folder / f"link{suffix}").symlink_to(tmp_path / "outside" / f"b{suffix}")
    monkeypatch.setenv("HOME", str(tmp_path / "outside"))
    monkeypatch.chdir(folder)
    return folder


def written_outside(root: Path) -> list[Path]:
    """Every file beside the output folder."""
    return [path for path in root.parent.rglob("*") if not path.is_relative_to(root) and path.is_file()]


def refusals(step: str, template: str, root: Path) -> list[str]:
    """Why a step with that output may not come by the API."""
    option, suffix, others = STEPS[step]
    named = template.replace(".jsonl", suffix).format(outside=root.parent / "outside")
    try:
        steps = parse_steps([{step.partition("/")[0]: {**others, option: named}}])
    except ConfigurationError as error:
        return [str(error)]
    after = BEFORE.model_copy(update={"steps": steps})
    return [str(problem) for problem in POLICY.problems(after, changed_from=BEFORE, outputs=Outputs(root))]


def test_every_output_of_every_element_is_tried() -> None:
    registry = Registry()
    outputs = {
        (name, field.alias or key)
        for name in registry.element_names
        for key, field in registry.element(name).model_fields.items()
        if role_of(field) is PathRole.OUTPUT and not (registry.element(name).delivers and name != "mqtt")
    }
    assert outputs == {(name.partition("/")[0], option) for name, (option, _, _) in STEPS.items()}


@pytest.mark.parametrize("step", STEPS)
def test_a_name_that_leads_elsewhere_is_refused(step: str, root: Path) -> None:
    admitted = [template for template in (*OUTSIDE, *OTHER_FILES) if not refusals(step, template, root)]
    assert admitted == (["a/"] if step in FOLDERS else [])


@pytest.mark.parametrize("step", STEPS)
def test_a_plain_name_is_admitted(step: str, root: Path) -> None:
    assert [template for template in PLAIN if refusals(step, template, root)] == []


@pytest.mark.parametrize("template", [*OUTSIDE, *OTHER_FILES, *PLAIN], ids=lambda template: repr(template[:50]))
def test_a_run_with_what_is_admitted_writes_nothing_outside(template: str, root: Path) -> None:
    if refusals("jsonl", template, root):
        assert template not in PLAIN
        return
    Pipeline(sources={"gate": BARS}, steps=[{"jsonl": {"path": template.format()}}], outputs=root).run()
    assert written_outside(root) == []
    assert [path for path in root.rglob("*.jsonl") if path.is_file()]


@pytest.mark.parametrize("template", WORKING)
def test_without_the_policy_it_is_written_so_that_the_test_sees_something(template: str, root: Path) -> None:
    path = template.format(outside=root.parent / "outside")
    Pipeline(sources={"gate": BARS}, steps=[{"jsonl": {"path": path}}], outputs=root).run()
    assert written_outside(root)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_may_not_have_that_name(name: str, root: Path) -> None:
    after = BEFORE.model_copy(update={"sources": {"gate": BARS, name.format(): BARS}})
    found = POLICY.problems(after, changed_from=BEFORE, outputs=Outputs(root))
    assert [problem.key[:2] for problem in found] == [("sources", name.format())]


@pytest.mark.parametrize("template", ["{stream}/a.jsonl", "a-{stream}.jsonl", "/{root}/{stream}/b/a.jsonl"])
def test_a_stream_may_not_have_the_name_of_a_link_through_which_its_files_would_lie_elsewhere(
    template: str, root: Path
) -> None:
    path = template.replace("/{root}", str(root))
    (root / "a-links.jsonl").symlink_to(root.parent / "outside" / "a.jsonl")
    before = BEFORE.model_copy(update={"steps": parse_steps([{"jsonl": path}])})

    def found(stream: str) -> list[str]:
        after = before.model_copy(update={"sources": {"gate": BARS, stream: BARS}})
        problems = POLICY.problems(after, changed_from=before, outputs=Outputs(root))
        return [".".join(map(str, problem.key)) for problem in problems]

    assert found("yard") == []
    assert found("links") == ["pipeline.0.jsonl.path"]


def test_streams_of_the_file_keep_their_names(root: Path) -> None:
    before = PipelineDescription(sources={"yard north": BARS})
    assert POLICY.problems(before, changed_from=before, outputs=Outputs(root)) == ()


@pytest.mark.parametrize("name", [name for name in STREAMS if name.strip(".~-{}$") and "\0" not in name])
def test_a_hostile_name_of_a_stream_becomes_a_plain_file_name_also_from_a_file(name: str, root: Path) -> None:
    path = Outputs(root).path("{stream}/a-{stream}.jsonl", stream=name.format())
    assert path.is_relative_to(root)
    assert len(path.relative_to(root).parts) == 2


def test_a_link_that_appears_when_the_file_is_opened_is_not_followed(root: Path) -> None:
    """Somebody else exchanges the file for a link, again and again, while it is opened."""
    path, secret = root / "a.jsonl", root.parent / "outside" / "secret.jsonl"
    over = threading.Event()
    links = 0

    def exchange() -> None:
        nonlocal links
        aside = root / "aside"
        while not over.is_set():
            aside.symlink_to(secret)
            aside.replace(path)
            links += 1
            with suppress(FileNotFoundError):
                path.unlink()

    thread = threading.Thread(target=exchange)
    thread.start()
    opened = refused = 0
    try:
        while opened < 200 or refused < 20 or links < 200:
            try:
                with Outputs(root).open_binary(path) as file:
                    file.write(b"x")
                opened += 1
            except SightlineError:
                refused += 1
            if opened > 200 and not refused:
                os.sched_yield()
    finally:
        over.set()
        thread.join()
    assert written_outside(root) == []
