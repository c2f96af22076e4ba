"""A folder or glob of videos becomes a stream for each file; mistakes are reported at their place."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.cli.main import execute
from sightline.config import load_description
from sightline.errors import ConfigurationError
from sightline.graph import PipelineDescription
from sightline_plugins.decode.kinds import names_images
from sightline_plugins.sources.file.element import Media
from sightline_plugins.sources.images.reader import find_images

JSONL = {"jsonl": {"path": "{stream}.jsonl"}}
END = "\npipeline: [{jsonl: {path: '{stream}.jsonl'}}]\n"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of empty files."""
    monkeypatch.chdir(tmp_path)
    for name in (
        *("clips/b.mp4", "clips/a10.MP4", "clips/a9.mkv", "clips/.hidden.mp4", "clips/notes.txt"),
        *("mixed/a.mp4", "mixed/b.jpg", "images/1.png", "nested/x/1.mp4", "nested/y/1.mp4"),
        *("odd/what?!.mp4", "odd/what_!.mp4", "same/a.mp4", "same/a.mkv"),
        *(".cache/nested/1.mp4", "nested/.trash/2.mp4", "hidden/.a.mp4", "images/.b.mp4"),
    ):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    Path("empty").mkdir()


def read(sources: str, *, key: str = "sources", given: Sequence[str] = ()) -> PipelineDescription:
    Path("p.yaml").write_text(f"{key}: {sources}{END}")
    return load_description("p.yaml", sources=given)


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
        ("nested/**/*.mp4", {"in-x-1": "nested/x/1.mp4", "in-y-1": "nested/y/1.mp4"}),
        (".cache/nested", {"in-1": ".cache/nested/1.mp4"}),
        ("same", {"in-a.mkv": "same/a.mkv", "in-a.mp4": "same/a.mp4"}),
        ("clips/b.mp4", {"in": "clips/b.mp4"}),
    ],
)
def test_each_file_becomes_a_stream_in_natural_order(uri: str, expected: dict[str, str]) -> None:
    found = streams(f"{{in: '{uri}'}}")

    assert found == expected
    assert list(found) == list(expected)


def test_names_that_are_not_allowed_are_changed_and_stay_different() -> None:
    assert list(streams("{in: odd}")) == ["in-what__", "in-what__-2"]


def test_options_hold_for_every_file() -> None:
    found = read("{in: {uri: clips, loop: 2, in_turn: true}}").sources.values()

    assert [(one.loop, one.takes_turns) for one in found if isinstance(one, Media)] == [(2, True)] * 3
    assert not any(one.takes_turns for one in read("{in: {uri: clips}}").sources.values())


@pytest.mark.parametrize("folder", ["clips", "clips/*"])
def test_a_source_of_the_command_line_and_one_of_a_sources_file_may_be_several_files(folder: str) -> None:
    Path("cameras.yaml").write_text(f"in: '{folder}'")
    names = ["in-a9", "in-a10", "in-b"]

    assert list(read("cameras.yaml", key="sources_file").sources) == names
    assert list(read("{in: same}", given=[f"in={folder}"]).sources) == names
    assert list(read("cameras.yaml", key="sources_file", given=["in=same/a.mp4"]).sources) == ["in"]


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
        (
            "{in: {uri: 'srt://camera:9', in_turn: true}}",
            "srt is a live stream: leave out loop, start, duration and in_turn",
        ),
        ("{in: {uri: clips, live: true}}", "a file is not live: leave live out"),
        ("{in: empty}", "empty is empty"),
        ("{in: hidden}", "hidden is empty"),
        ("{in: {uri: clips, fps: 5}}", "there is no such option; did you mean 'max_fps'?"),
    ],
)
def test_a_mistake_is_reported_once_at_its_place(sources: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(sources)

    (line,) = str(caught.value).splitlines()
    assert line.startswith("p.yaml:1:")
    assert message in line


def test_a_mistake_of_the_command_line_is_reported_there() -> None:
    with pytest.raises(ConfigurationError, match=r"^--source in: sources\.in\.uri: .*mixed holds videos"):
        read("{in: clips}", given=["in=mixed"])


def test_a_mistake_of_a_sources_file_is_reported_there() -> None:
    Path("cameras.yaml").write_text("in: {uri: mixed}")

    with pytest.raises(ConfigurationError, match=r"^/.*cameras.yaml:1:11: sources\.in\.uri: .*mixed holds videos"):
        read("cameras.yaml", key="sources_file")


def test_a_folder_that_cannot_be_listed_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ConfigurationError, match=r"p.yaml:1:15: sources\.in\.uri: .*clips cannot be read: Permission"):
        read("{in: clips}")


def test_check_warns_of_many_files_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(65):
        Path(f"same/{number}.mp4").touch()

    read("{in: same}")
    assert execute(["check", "p.yaml"]) == 0
    assert "warning: 67 files are read at once" in capsys.readouterr().err

    read("{in: {uri: same, in_turn: true}}")
    assert execute(["check", "p.yaml"]) == 0
    assert not capsys.readouterr().err


def test_a_folder_without_videos_is_for_images() -> None:
    assert names_images("images")
    assert not names_images("clips")
    assert not names_images("mixed")


def test_hidden_files_are_no_images_of_a_folder() -> None:
    Path("images/.2.png").touch()

    assert find_images("images") == [Path("images/1.png")]


def test_one_stream_is_added_at_a_time() -> None:
    pipeline = Pipeline(sources={}, steps=[JSONL], keep_running=True)

    with pytest.raises(ConfigurationError, match="'in' would be 3 streams, one for each file: add each file by itself"):
        pipeline.add_source("in", "clips")
    with pytest.raises(ConfigurationError, match="mixed holds videos"):
        pipeline.add_source("in", {"uri": "mixed"})
    assert not pipeline.description.sources


def test_in_python_as_in_yaml() -> None:
    for source in ("clips", Path("clips"), {"uri": "clips"}, Media(uri="clips")):
        found = Pipeline(sources={"in": source}, steps=[JSONL]).description.sources
        assert list(found) == ["in-a9", "in-a10", "in-b"]
    with pytest.raises(ConfigurationError, match="there are two streams 'in-b'"):
        Pipeline(sources={"in": "clips", "in-b": "clips/b.mp4"}, steps=[JSONL])
