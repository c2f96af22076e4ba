"""Tables and lists of the documentation name everything that they are about."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from sightline import Pipeline
from sightline.cli.main import COMMANDS
from sightline.graph import MessageKind
from sightline_plugins import Detect
from sightline_plugins.heads.registry import HEADS
from sightline_plugins.infer.detections import detection_rules
from tests.conftest import REPOSITORY
from tests.unit.infer import tiny

GUIDE = REPOSITORY / "docs" / "guide"
OWN_MODEL = REPOSITORY / "configs" / "bring-your-own-model.yaml"
KNOB = re.compile(r"^(?P<indent> +)# (?P<key>\w+):(?P<value> .*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def report() -> dict[str, object]:
    run = Pipeline(sources={"test": {"pattern": "bars", "frames": 2, "size": [64, 48]}}).run()
    return run.to_json()


def test_every_key_of_the_report_is_explained(report: dict[str, object]) -> None:
    page = (GUIDE / "operating.md").read_text()
    named = {word.split(".")[0] for word in re.findall(r"`([\w.]+)`", page)}

    assert set(report) - named == set()


def test_every_key_of_a_stream_is_explained(report: dict[str, object]) -> None:
    page = (GUIDE / "operating.md").read_text()
    named = {word.split(".")[0] for word in re.findall(r"`([\w.]+)`", page)}
    streams = report["streams"]
    assert isinstance(streams, dict)

    assert set(streams["test"]) - named == set()


def test_every_command_is_listed() -> None:
    page = (GUIDE / "operating.md").read_text()

    assert [name for name in COMMANDS if f"`sightline {name}" not in page] == []


def test_every_kind_of_message_is_listed() -> None:
    page = (GUIDE / "python.md").read_text()

    assert [kind for kind in MessageKind if f"`{kind}`" not in page] == []


def test_every_head_is_listed() -> None:
    page = (GUIDE / "models.md").read_text()

    assert [name for name in HEADS if f"| `{name}` |" not in page] == []


def test_every_knob_of_detect_stands_in_the_configuration_for_own_models() -> None:
    knobs = {match["key"] for match in KNOB.finditer(OWN_MODEL.read_text())}

    assert knobs == set(Detect.model_fields) - {"model", "id", "streams", "on_error"}


def test_knobs_that_are_commented_out_show_their_defaults(tmp_path: Path) -> None:
    model = tiny.write_shapes(
        tmp_path / "m.onnx", inputs={"images": [1, 3, 64, 64]}, outputs={"output0": [1, 4 + 3, 84]}
    )
    text = KNOB.sub(r"\g<indent>\g<key>:\g<value>", OWN_MODEL.read_text())
    shown = YAML(typ="safe", pure=True).load(text)["pipeline"][0]["detect"] | {"model": str(model)}
    spoken = Detect.model_validate(shown)
    silent = Detect.model_validate({"model": str(model), "labels": shown["labels"]})

    assert facts(spoken) == facts(silent)
    assert spoken.model_dump(include={"engine", "every", "regions"}) == silent.model_dump(
        include={"engine", "every", "regions"}
    )


def facts(element: Detect) -> tuple[object, ...]:
    plan, problems = element.plan()
    assert plan is not None, problems
    assert plan.head is not None
    rules = detection_rules(element, plan)
    return plan.head.name, plan.labels, plan.preprocessing, rules.nms, rules.confidence, rules.wanted


def test_the_newest_dated_release_is_the_version_of_the_package() -> None:
    releases = re.findall(
        r"^## \[([\d.]+)\] - (\d{4}-\d{2}-\d{2})$", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

    assert releases[0][0] == project["version"]
    assert [date for _, date in releases] == sorted((date for _, date in releases), reverse=True)
