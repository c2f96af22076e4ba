"""A folder or glob of videos becomes a stream for each file; what cannot be told is a mistake at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.config import load_description
from sightline.errors import ConfigurationError
from sightline.graph import PipelineDescription
from sightline_plugins.decode.kinds import names_images
from sightline_plugins.sources.file.element import Media

END = "\npipeline: [{jsonl: {path: '{stream}.jsonl'}}]\n"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of empty files."""
    monkeypatch.chdir(tmp_path)
    for name in (
        *("clips/b.mp4", "clips/a10.MP4", "clips/a9.mkv", "clips/.hidden.mp4", "clips/notes.txt"),
        *("mixed/a.mp4", "mixed/b.jpg", "images/1.png", "nested/x/1.mp4", "nested/y/1.mp4"),
        *("odd/what?!.mp4", "odd/what_!.mp4", "same/a.mp4", "same/a.mkv"),
    ):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    Path("empty").mkdir()


def read(sources: str) -> PipelineDescription:
    Path("p.yaml").write_text(f"sources: {sources}{END}")
    return load_description("p.yaml")


def streams(sources: str) -> dict[str, str]:
    """Return the streams of a document, with their files relative to the folder."""
    found = read(sources).sources
    assert all(isinstance(source, Media) for source in found.values())
    return {
        name: str(Path(source.uri).relative_to(Path.cwd()) if Path(source.uri).is_absolute() else source.uri)
        for name, source in found.items()
        if isinstance(source, Media)
    }


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("clips", {"in-a9": "clips/a9.mkv", "in-a10": "clips/a10.MP4", "in-b": "clips/b.mp4"}),
        ("clips/*", {"in-a9": "clips/a9.mkv", "in-a10": "clips/a10.MP4", "in-b": "clips/b.mp4"}),
        ("clips/*.mp4", {"in-b": "clips/b.mp4"}),
        ("mixed/*.mp4", {"in-a": "mixed/a.mp4"}),
        ("nested/*/1.mp4", {"in-x-1": "nested/x/1.mp4", "in-y-1": "nested/y/1.mp4"}),
        ("same", {"in-a.mkv": "same/a.mkv", "in-a.mp4": "same/a.mp4"}),
        ("clips/b.mp4", {"in": "clips/b.mp4"}),
    ],
)
def test_each_file_becomes_a_stream_in_natural_order(uri: str, expected: dict[str, str]) -> None:
    found = streams(f"{{in: '{uri}'}}")

    assert found == expected
    assert list(found) == list(expected)


def test_names_that_streams_may_not_have_are_changed_and_stay_different() -> None:
    assert list(streams("{in: odd}")) == ["in-what__", "in-what__-2"]


def test_options_hold_for_every_file() -> None:
    found = read("{in: {uri: clips, loop: 2, in_turn: true}}").sources.values()

    assert [(one.loop, one.takes_turns) for one in found if isinstance(one, Media)] == [(2, True)] * 3
    assert not any(one.takes_turns for one in read("{in: {uri: clips}}").sources.values())


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ("{in: 'clips/*.avi'}", "clips/*.avi"),
        (
            "{in: mixed}",
            "mixed holds videos (a.mp4) and images (b.jpg): name one kind, such as ",
        ),
        ("{in: clips, in-b: clips/b.mp4}", "there are two streams 'in-b': rename one of them"),
        ("{in: {uri: clips, in_turn: true, loop: true}}", "with loop: true the first file never ends"),
    ],
)
def test_what_cannot_be_told_is_one_mistake_at_its_place(sources: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(sources)

    assert "p.yaml:1:" in str(caught.value)
    assert message in str(caught.value)


def test_a_folder_without_videos_is_for_images() -> None:
    assert names_images("images")
    assert not names_images("clips")
    assert not names_images("mixed")


def test_in_python_as_in_yaml() -> None:
    assert list(
        Pipeline(sources={"in": "clips"}, steps=[{"jsonl": {"path": "{stream}.jsonl"}}]).description.sources
    ) == ["in-a9", "in-a10", "in-b"]
    with pytest.raises(ConfigurationError, match="there are two streams 'in-b'"):
        Pipeline(sources={"in": "clips", "in-b": "clips/b.mp4"}, steps=[{"jsonl": {"path": "{stream}.jsonl"}}])
