"""What the documentation shows is true: its YAML loads, its Python runs, its pages are linked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from sightline.config import load_description
from sightline.config.overrides import TOP_LEVEL
from sightline.graph import Registry
from sightline_plugins.commands.camera.script import ScriptFile
from sightline_plugins.commands.plan.fleet import Fleet
from sightline_plugins.infer.card import ModelCard
from tests.conftest import REPOSITORY, missing
from tests.unit.docs.blocks import PAGES, Block, blocks, lay_out

STREAMS = {"street": "sample_videos/street.mp4", "entrance": "sample_videos/entrance.mp4"}
TRACKS = {"replay": {"path": "sample_videos/{stream}.mot.txt", "ids": True}}
LINES = {"lines": {"before": {"from": [0.1, 0.6], "to": [0.9, 0.6]}}}
THIRD_PARTY = ("keep:", "my_package.", "my_module:")
"""What pages show of code that a reader has yet to write."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("reader"))


def plain(text: str) -> object:
    return YAML(typ="safe", pure=True).load(text)


def written(document: Mapping[str, object]) -> str:
    text = StringIO()
    YAML().dump(dict(document), text)
    return text.getvalue()


def moves_pixels(name: str) -> bool:
    """Whether that step stands before those that find objects."""
    return name in Registry().element_names and Registry().element(name).moves_pixels


def whole(block: Block) -> str | None:
    """The pipeline file that a block is, or is a part of; None for a model card, a script or a fleet."""
    found = plain(block.text)
    if isinstance(found, list):
        before = [TRACKS, LINES] if "events" in block.text else [TRACKS]
        if any(isinstance(step, dict) and moves_pixels(*step) for step in found):
            before = []
        return written({"sources": STREAMS, "pipeline": [*before, *found]})
    assert isinstance(found, dict), f"{block} is neither a mapping nor a list"
    if len(found) == 1 and set(found) <= set(Registry().element_names):
        before = [] if "detect" in found else [{"replay": {**TRACKS["replay"], "id": "detect-1"}}]
        return written({"sources": STREAMS, "pipeline": [*before, found]})
    if not set(found) <= set(TOP_LEVEL):
        return None
    return block.text if {"sources", "pipeline"} <= set(found) else written({"pipeline": ["draw"], **found})


SECRETS = ("MQTT_PASSWORD", "NATS_PASSWORD", "REDIS_PASSWORD")
"""Variables that examples take passwords from."""


def is_known(block: Block) -> bool:
    return not any(mark in block.text for mark in THIRD_PARTY)


@pytest.mark.parametrize("block", [block for block in blocks("yaml") if is_known(block)], ids=str)
def test_yaml_loads(block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: [])  # examples name any hosts
    text = whole(block)
    if text is None:
        is_fleet, is_script = "\nmachines:" in block.text, block.text.startswith("steps:")
        kind = Fleet if is_fleet else ScriptFile if is_script else ModelCard
        kind.model_validate(plain(block.text))
        return
    if "street.mp4" in text and "sample_videos/street.mp4" not in text and not (folder / "street.mp4").exists():
        (folder / "street.mp4").symlink_to(folder / "sample_videos" / "street.mp4")
    (folder / "frames").mkdir(exist_ok=True)
    (folder / "frames" / "1.jpg").touch()
    (folder / "det.txt").write_text("1,-1,0,0,10,10,0.9,-1,-1,-1\n")
    path = folder / "page.yaml"
    path.write_text(text)

    assert load_description(
        path, environment=dict.fromkeys(SECRETS, "secret") | {"CAMERA_URL": "rtsp://10.0.0.7/main"}
    ).sources


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec")


def runs_a_pipeline(block: Block) -> bool:
    return "from sightline import Pipeline" in block.text


RUNNING = [block for block in blocks("python") if runs_a_pipeline(block)]
RUN_ALL = """
import json, sys, traceback
for name, text in json.load(sys.stdin):
    try:
        exec(compile(text, name, "exec"), {"__name__": "__main__"})
        fault = ""
    except BaseException:
        fault = traceback.format_exc()
    print("\\n" + json.dumps({name: fault}), flush=True)
"""
"""A program that runs one block after the other, each as a module of its own, and prints what was wrong with it."""


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> dict[str, str]:
    """What went wrong in each block that was run; of one that ended the program, what this printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN_ALL],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        input=json.dumps([(str(block), block.text) for block in RUNNING]),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = dict.fromkeys(map(str, RUNNING), f"it was not run: {done.stderr}")
    for line in done.stdout.splitlines():
        if line.startswith('{"'):
            found |= {name: fault for name, fault in json.loads(line).items() if name in found}
    return found


OPTIONAL = ("pandas", "polars", "rerun", "supervision")
"""Packages that pages use with Sightline; `make dev` installs them."""


@pytest.mark.parametrize("block", RUNNING, ids=str)
def test_python_runs(block: Block, outcomes: dict[str, str]) -> None:
    outcome = outcomes[str(block)]
    lacking = [name for name in OPTIONAL if f"needs the package '{name}'" in outcome or f"named '{name}'" in outcome]
    if lacking:
        missing(f"the package {lacking[0]} is not installed")
    assert outcome == ""


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_is_json(block: Block) -> None:
    assert json.loads(block.text)


@pytest.mark.parametrize("section", ["benchmarks", "decisions"])
def test_every_page_of_a_section_is_linked_from_its_index(section: str) -> None:
    folder = REPOSITORY / "docs" / section
    index = (folder / "index.md").read_text()
    pages = {page.name for page in folder.glob("*.md")} - {"index.md"}

    assert [page for page in sorted(pages) if f"({page})" not in index] == []


def test_every_configuration_and_example_that_a_page_names_is_there() -> None:
    named = {
        word.strip("`.,()")
        for page in PAGES
        for word in page.read_text().split()
        if word.strip("`.,()").startswith(("configs/", "examples/")) and word.strip("`.,()").count(".")
    }

    assert [name for name in sorted(named) if not (REPOSITORY / name).exists()] == []


def test_code_that_names_its_file_is_that_file() -> None:
    wrong = []
    for block in blocks("python"):
        first, _, rest = block.text.partition("\n")
        if first.startswith("# examples/") and (REPOSITORY / first.removeprefix("# ")).read_text() != rest:
            wrong.append(f"{block}: differs from {first.removeprefix('# ')}")

    assert wrong == []


def test_every_worked_extension_is_shown_on_a_page() -> None:
    shown = {block.text.partition("\n")[0] for block in blocks("python")}
    modules = (REPOSITORY / "examples" / "extensions").glob("*/*.py")

    assert [str(path) for path in modules if f"# {path.relative_to(REPOSITORY)}" not in shown] == []


NAMED_PATH = re.compile(r"`((?:tests|pipeline|plugins|tools|benchmarks|docs|examples|configs|models)/[\w./-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_path_that_a_page_names_is_there(page: Path) -> None:
    named = set(NAMED_PATH.findall(page.read_text()))

    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []
