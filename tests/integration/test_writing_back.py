"""The pipelines in `configs/` are changed in every part, and written back."""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sightline.config import ConfigurationFile
from sightline.graph import BatchOptions, Element, PipelineDescription, SourceElement, Step
from sightline_plugins import Draw, Lines, Zones

ENVIRONMENT = {"CAMERA_URL": "rtsp://user:passw0rd@10.0.0.7/main", "MODEL": "../models/street.onnx"}
CONFIGS = sorted(path.name for path in (Path(__file__).parents[2] / "configs").glob("*.yaml"))


@pytest.fixture
def files(repository: Path, tmp_path: Path) -> Path:
    """A copy of the configurations, with what they read beside it."""
    for name in ("models", "sample_videos"):
        (tmp_path / name).symlink_to(repository / name)
    shutil.copytree(repository / "configs", tmp_path / "configs")
    return tmp_path / "configs"


def with_options(element: Element | SourceElement, **options: object) -> Element | SourceElement:
    plain = element.model_dump(by_alias=True, exclude_unset=True)
    return type(element).model_validate({**plain, **options})


def changes(now: PipelineDescription) -> Iterator[tuple[str, PipelineDescription, int]]:
    """Every kind of change: its name, what comes of it, and how many lines it changes at most."""
    name, source = next(iter(now.sources.items()))
    for element_id, element in now.elements():
        other = with_options(element, streams=["*"])
        assert isinstance(other, Element)
        yield f"{element_id} with streams", now.with_element(element_id, other), 2
        if isinstance(element, Lines | Zones):
            yield f"{element_id} moved", now.with_element(element_id, moved(element)), 2
    yield (
        "source",
        now.model_copy(update={"sources": {**now.sources, name: with_options(source, realtime=not source.realtime)}}),
        2,
    )
    yield "batch", now.model_copy(update={"batch": BatchOptions(size=3)}), 1
    yield "step more", now.model_copy(update={"steps": (*now.steps, Draw(id="drawn"))}), 1
    first: tuple[Step, ...] = now.steps[:1]
    yield "step in between", now.model_copy(update={"steps": (*first, Draw(id="drawn"), *now.steps[1:])}), 1


def moved(rule: Lines | Zones) -> Element:
    """A rule with the first number of each of its points changed."""
    plain = rule.model_dump(by_alias=True, exclude_unset=True)
    for shape in plain.values():
        if isinstance(shape, dict) and "polygon" in shape:
            shape["polygon"] = [(0.123, shape["polygon"][0][1]), *shape["polygon"][1:]]
        elif isinstance(shape, dict) and "from" in shape:
            shape["from"] = (0.123, shape["from"][1])
    return type(rule).model_validate(plain)


@pytest.mark.parametrize("name", CONFIGS)
def test_each_change_of_each_configuration_is_written_in_its_own_lines(name: str, files: Path) -> None:
    text = (files / name).read_text()
    file = ConfigurationFile(files / name, environment=ENVIRONMENT)

    for kind, wanted, most in changes(file.read()):
        (files / name).write_text(text)
        file.read()

        assert file.write(wanted), kind

        written = (files / name).read_text()
        diff = [line for line in difflib.ndiff(text.splitlines(), written.splitlines()) if line[0] in "+-"]
        assert len(diff) <= most, (kind, diff)
        assert re.findall("#.*", text) == re.findall("#.*", written), kind
        assert "passw0rd" not in written
        assert str(files.parent) not in written
        found = ConfigurationFile(files / name, environment=ENVIRONMENT).read()
        assert found == wanted, kind


@pytest.mark.parametrize("name", CONFIGS)
def test_steps_may_all_go_one_by_one(name: str, files: Path) -> None:
    file = ConfigurationFile(files / name, environment=ENVIRONMENT)
    description = file.read()

    while len(description.steps) > 1:
        steps = description.steps
        # Alarms need the step that verifies them: it goes after their rules.
        is_awaited = steps[-1].name == "describe" and steps[-2].name == "zones"
        description = description.model_copy(update={"steps": (*steps[:-2], steps[-1]) if is_awaited else steps[:-1]})
        file.write(description)
        assert ConfigurationFile(files / name, environment=ENVIRONMENT).read() == description
