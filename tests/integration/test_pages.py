"""A reader who types what the pages for beginners show gets what they promise: files saved, commands run, in order."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest

from sightline.cli.main import cli
from tests.command_line import called
from tests.conftest import REPOSITORY, missing
from tests.unit.docs.blocks import PAGES, lay_out

FOR_BEGINNERS = ("README.md", "docs/quickstart.md")
SIGHTLINE = str(Path(sys.executable).parent / "sightline")
CAMERA_ADDRESS = "127.0.0.1:8554"
_SAVED = re.compile(r"[Ss]ave this as\s+`(?P<name>[\w.-]+)`:\n\n```yaml\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_CONSOLE = re.compile(r"^```console\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
SHELL = ("", "console", "sh", "text")
SECONDS = {"bench": 1, "plan": 2}
"""How long commands measure here that take a minute or so by themselves."""
NOT_RUN = {
    "pip install": "changes the environment of the tests",
    "python3 -m venv": "changes the environment of the tests",
    ". my-env": "changes the environment of the tests",
    "cd ": "the folder of the demo is laid out by the tests",
    "sightline demo": "its own tests run it; here its folder is laid out with short clips",
    "sightline run demo.yaml": "its own tests run it in the folder of the demo (`cli/test_demo.py`)",
    "sightline serve": "goes on until it is ended; its own tests run it",
    "sightline models pull": "takes a model from the internet",
    "sightline run street.yaml --source gate=rtsp://user:password@my-camera": "a camera that is not there",
}
"""Commands of the pages that are not run, by how they begin, and why; that they exist is checked."""


def commands(page: str) -> list[str]:
    """The commands of a page, without the remarks behind them."""
    text = (REPOSITORY / page).read_text()
    lines = (line for block in _CONSOLE.finditer(text) for line in block["text"].splitlines())
    return [line.removeprefix("$ ").partition("  #")[0].strip() for line in lines if line.startswith("$ ")]


def is_run(command: str) -> bool:
    return not command.startswith(tuple(NOT_RUN))


@dataclass
class Reader:
    """A shell in the folder of the demo, in which exported variables and cameras in the background stay."""

    folder: Path
    environment: dict[str, str]
    cameras: list[subprocess.Popen[str]] = field(default_factory=list)
    address: str = CAMERA_ADDRESS

    def enter(self, command: str) -> str:
        """Run a command, shorter where it takes a time, and return what it printed.

        A camera goes on in the background, on a free port; a server listens on a free port, too.
        """
        command = command.replace(CAMERA_ADDRESS, self.address).replace("--duration 10s", "--duration 1s")
        command = command.replace("--listen 127.0.0.1:8080", "--listen 127.0.0.1:0")
        for measuring, seconds in SECONDS.items():
            command += f" --seconds {seconds}" if command.startswith(f"sightline {measuring}") else ""
        if command.startswith("export "):
            name, _, value = shlex.split(command)[1].partition("=")
            self.environment[name] = value
            return ""
        program, *words = shlex.split(command)
        if program == "sightline" and words[0] == "camera":
            return self._begin_camera([SIGHTLINE, *words, "--port", "0"])
        done = called(*words, folder=self.folder, environment=self.environment)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def _begin_camera(self, words: list[str]) -> str:
        camera = subprocess.Popen(
            words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.cameras.append(camera)
        assert camera.stdout is not None
        printed = camera.stdout.readline()
        found = re.search(r"127\.0\.0\.1:\d+", printed)
        assert found is not None, printed
        self.address = found[0]
        return printed

    def close(self) -> None:
        for camera in self.cameras:
            camera.terminate()
            camera.communicate(timeout=300)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(lay_out(tmp_path), dict(os.environ))
    yield reader
    reader.close()


@pytest.mark.parametrize("page", FOR_BEGINNERS)
@pytest.mark.usefixtures("compiled_once")
def test_what_a_page_saves_and_runs_works_in_the_folder_of_the_demo(page: str, reader: Reader) -> None:
    reader.environment["SIGHTLINE_CACHE"] = os.environ["SIGHTLINE_CACHE"]
    saved = {match["name"]: match["text"] for match in _SAVED.finditer((REPOSITORY / page).read_text())}
    assert saved
    for name, text in saved.items():
        (reader.folder / name).write_text(text)

    entered = [command for command in commands(page) if is_run(command) and exists(command)]
    printed = "".join(reader.enter(command) for command in entered)

    assert "secret" not in printed
    assert [name for name in saved if not any(name in command for command in entered)] == []
    written = {path.name for path in (reader.folder / "out").iterdir()}
    promised = set(re.findall(r"`out/([\w.]+)`", (REPOSITORY / page).read_text()))
    assert promised - written == set()


def exists(command: str) -> bool:
    """Whether a command of Sightline, or one below it, is installed; other programs may be missing."""
    words = shlex.split(command)
    return words[0] != "sightline" or found(words) is not None


def found(words: Sequence[str]) -> click.Command | None:
    """The command that a line calls, or None."""
    command: click.Command | None = cli
    for word in words[1:]:
        if not isinstance(command, click.Group) or word.startswith(("-", "[")):
            break
        command = command.get_command(click.Context(command), word)
    return command


def shown_commands() -> list[str]:
    """Every call of Sightline in a code block of any page, once, without what follows a pipe or a redirection."""
    blocks = (block for page in PAGES for block in _CODE.finditer(page.read_text()))
    lines = (line.strip() for block in blocks if block["language"] in SHELL for line in block["text"].splitlines())
    calls = (line.removeprefix("$ ").removeprefix(".venv/bin/").partition("  #")[0] for line in lines)
    ended = (re.split(r" [|>&] ?", call)[0].strip() for call in calls if call.startswith("sightline "))
    return sorted({call for call in ended if call.split()[1][0].islower()})


@pytest.mark.parametrize("call", shown_commands())
def test_every_command_that_a_page_shows_exists_with_its_options(call: str) -> None:
    words = shlex.split(call)
    command = found(words)
    if command is None:
        missing(f"the command `{' '.join(words[:3])}` is not installed")
    assert command is not None
    known = {name for option in command.params for name in option.opts} | {"--help", "-h", "--version"}

    assert [word for word in words if word.startswith("--") and word.partition("=")[0] not in known] == []
