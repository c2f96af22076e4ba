"""What an assistant may ask about: configurations of its folder, and nothing else of the machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.conftest import REPOSITORY

from sightline.config import InvalidConfiguration
from sightline.errors import ConfigurationError
from sightline.server.policy import Policy
from sightline_plugins.commands.mcp.workbench import Workbench, problems_of

CLIP = "sources: {gate: videos/gate.mp4}\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "root"
    for name in ("videos", "pipelines"):
        (folder / name).mkdir(parents=True)
    for target in (folder / "videos" / "gate.mp4", tmp_path / "outside.mp4"):
        shutil.copy(REPOSITORY / "sample_videos" / "gate.mp4", target)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def workbench(root: Path) -> Workbench:
    return Workbench(root, policy=Policy(), variables={"HOST": "10.0.0.7"})


def refused(workbench: Workbench, text: str) -> list[tuple[str, str]]:
    with pytest.raises(InvalidConfiguration) as caught:
        workbench.judged(text)
    return [(one.path, one.message) for one in problems_of(caught.value)]


def test_a_text_is_judged_with_the_places_of_its_mistakes(workbench: Workbench) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        workbench.judged(f"{CLIP}pipeline:\n  - trak\n  - jsonl: {{path: out.jsonl, rotat: 3}}\n")

    found = problems_of(caught.value)
    assert [(one.path, one.line) for one in found] == [("pipeline.0.trak", 3), ("pipeline.1.jsonl.rotat", 4)]
    assert "did you mean 'track'?" in found[0].message


def test_paths_start_at_the_root_and_in_a_file_at_the_file(workbench: Workbench, root: Path) -> None:
    (root / "pipelines" / "a.yaml").write_text("sources: {gate: ../videos/gate.mp4}\npipeline: []\n")

    by_text, by_file = workbench.judged(f"{CLIP}pipeline: []\n"), workbench.judged("pipelines/a.yaml")

    assert {Path(str(getattr(one.description.sources["gate"], "uri", ""))) for one in (by_text, by_file)} == {
        root / "videos" / "gate.mp4"
    }
    assert by_file.name == "pipelines/a.yaml"


@pytest.mark.parametrize(
    "uri", ["../outside.mp4", "{outside}", "videos/link.mp4", "~/a.mp4", "https://example.com/a.mp4"]
)
def test_what_lies_outside_is_not_read(workbench: Workbench, root: Path, uri: str) -> None:
    (root / "videos" / "link.mp4").symlink_to(root.parent / "outside.mp4")

    found = refused(
        workbench, f"sources: {{gate: '{uri.format(outside=root.parent / 'outside.mp4')}'}}\npipeline: []\n"
    )

    assert [path.removesuffix(".uri") for path, _ in found] == ["sources.gate"]


@pytest.mark.parametrize(
    ("step", "path"),
    [
        ("jsonl: /tmp/out.jsonl", "pipeline.0.jsonl.path"),
        ("jsonl: ../out.jsonl", "pipeline.0.jsonl.path"),
        ("apply: {function: 'os:getcwd'}", "pipeline.0.apply.function"),
        ("webhook: {url: https://example.com/}", "pipeline.0.webhook.url"),
        ("publish: {rtsp: 8554}", "pipeline.0.publish.rtsp"),
    ],
)
def test_a_step_reaches_nothing_outside(workbench: Workbench, step: str, path: str) -> None:
    assert [found for found, _ in refused(workbench, f"{CLIP}pipeline:\n  - {step}\n")] == [path]


def test_variables_that_are_not_given_stay_hidden(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "very-secret")

    assert workbench.judged("sources: {gate: 'rtsp://${HOST}/main'}\npipeline: []\n").description.sources
    found = refused(workbench, f"name: '${{KEY}}'\n{CLIP}pipeline: []\n")

    assert "KEY is not given to assistants: allow it with --allow-variable" in found[0][1]
    assert "very-secret" not in str(found)


@pytest.mark.parametrize("name", ["../a.yaml", "/etc/a.yaml", "away.yaml", "none.yaml", "pipelines/large.yaml"])
def test_a_file_that_cannot_be_had_is_one_error(workbench: Workbench, root: Path, name: str) -> None:
    (root.parent / "a.yaml").write_text(f"{CLIP}pipeline: []\n")
    (root / "away.yaml").symlink_to(root.parent / "a.yaml")
    (root / "pipelines" / "large.yaml").write_text("#" * (2 << 20))

    with pytest.raises(ConfigurationError, match=r"below|read|bytes") as caught:
        workbench.judged(name)

    assert not isinstance(caught.value, InvalidConfiguration)


def test_what_is_no_configuration_is_an_error(workbench: Workbench) -> None:
    for text in ("", "[1, 2]", "a: [", "\x00"):
        assert refused(workbench, text), text
