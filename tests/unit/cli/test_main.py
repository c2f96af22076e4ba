"""The entry point of the command: what it does with garbage, and with names that no command has."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sightline.cli.main import execute

_CALLED = """
import gc, sys
from sightline.cli.main import main
try:
    main()
except SystemExit as end:
    print(end.code, gc.isenabled())
"""


@pytest.mark.parametrize(("arguments", "collects"), [(["schema"], False), (["doctor"], True), (["--help"], True)])
def test_only_commands_that_end_soon_collect_no_garbage(arguments: list[str], collects: bool) -> None:
    command = [sys.executable, "-c", _CALLED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"0 {collects}"


def test_garbage_is_collected_where_a_program_calls_a_command() -> None:
    called = _CALLED.replace("main import main", "main import execute").replace(
        "main()", "sys.exit(execute(['graph']))"
    )
    done = subprocess.run([sys.executable, "-c", called], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "2 True"


def test_a_misspelt_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["chekc"]) == 2
    assert "No such command 'chekc'. Did you mean 'check'?" in capsys.readouterr().err


def test_a_misspelt_command_of_another_package_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert execute(["model"]) == 2
    assert "Did you mean 'models'?" in capsys.readouterr().err
