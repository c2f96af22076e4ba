"""The reference of the command line: every option, exit code and environment variable is on its page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tools.docs.commands import DEVELOPMENT, EXIT_CODES, VARIABLES, commands, own_commands

from sightline.cli import main
from sightline.cli.run import _FAILED, _INCOMPLETE, _INTERRUPTED
from tests.conftest import REPOSITORY

PAGES = commands()
VARIABLE = re.compile(r"\bSIGHTLINE_[A-Z_]+\b")


def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command and those below it, each with the name that is typed."""
    yield name, command
    if isinstance(command, click.Group):
        for part in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), part)
            assert found is not None
            yield from below(f"{name} {part}", found)


def options() -> list[tuple[str, str, str]]:
    """Every option of every command: the page, the command, the option."""
    found = []
    for name, command in own_commands().items():
        for full_name, part in below(name, command):
            named = [option for option in part.params if isinstance(option, click.Option)]
            found += [(f"commands/{name}.md", full_name, option.opts[-1]) for option in named]
    return found


def test_every_command_of_the_program_has_a_page() -> None:
    listed = main.cli.list_commands(click.Context(main.cli))

    assert set(listed) >= set(main.COMMANDS)
    assert {f"commands/{name}.md" for name in main.COMMANDS} <= set(PAGES)
    assert [name for name in listed if f"commands/{name}.md" in PAGES] == [
        name for name in listed if f"[`sightline {name}`]({name}.md)" in PAGES["commands/index.md"]
    ]


@pytest.mark.parametrize(("page", "command", "option"), options())
def test_every_option_is_explained_on_the_page_of_its_command(page: str, command: str, option: str) -> None:
    part = PAGES[page].partition(f"# sightline {command}\n")[2]
    row = re.search(rf"^\| .*`{option}[ `].* \| .* \| (?P<meaning>.*) \|$", part, re.MULTILINE)

    assert row is not None
    assert row["meaning"].strip()


def test_every_exit_code_of_run_is_listed() -> None:
    assert {0, main.FAILED, main.WRONG, main.INTERRUPTED, main.READER_GONE, _FAILED, _INCOMPLETE, _INTERRUPTED} == set(
        EXIT_CODES
    )


def test_every_environment_variable_that_the_program_reads_is_listed() -> None:
    assert variables("pipeline", "plugins") == {name for name in VARIABLES if name.startswith("SIGHTLINE_")}


def test_every_environment_variable_of_tests_and_tools_is_listed() -> None:
    assert variables("tests", "tools", "benchmarks") - set(VARIABLES) == set(DEVELOPMENT)


def variables(*folders: str) -> set[str]:
    files = (file for folder in folders for file in (REPOSITORY / folder).rglob("*.py"))
    return {name for file in files if file != Path(__file__) for name in VARIABLE.findall(file.read_text())}
