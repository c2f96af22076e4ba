"""Completion as a shell asks for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Sightline


def completed(*words: str) -> set[str]:
    """What bash offers for the last of these words, after the script was read as ~/.bashrc reads it."""
    program = Path(sys.executable).parent
    script = (
        'eval "$(sightline completion bash)"; '
        f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _sightline_completion sightline; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{program}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("sightline", "ru"), {"run"}),
        (("sightline", "run", "x.yaml", "--dev"), {"--device"}),
        (("sightline", "run", "x.yaml", "--device", "c"), {"cpu", "cuda", "cuda:0"}),
        (("sightline", "elements", "zo"), {"zones"}),
        (("sightline", "models", "sh"), {"show"}),
    ],
)
def test_bash_completes(words: tuple[str, ...], offered: set[str]) -> None:
    assert completed(*words) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_there_is_a_script_for_other_shells(sightline: Sightline, shell: str) -> None:
    printed = sightline("completion", shell)

    assert printed.returncode == 0
    assert f"_SIGHTLINE_COMPLETE={shell}_complete" in printed.stdout


def test_a_shell_that_is_not_known_is_asked_for(sightline: Sightline) -> None:
    printed = sightline("completion", SHELL="/bin/sh")

    assert (printed.returncode, printed.stdout) == (2, "")
    assert "give the shell: bash, zsh, fish" in printed.stderr
