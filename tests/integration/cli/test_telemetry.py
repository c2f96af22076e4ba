"""No engine reports to its authors: ONNX Runtime would keep an identifier of the device in the home folder for that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.cli.conftest import command

PROGRAM = """
import sys
from sightline import Pipeline
from sightline_plugins import Detect, Pattern
sources = {"cam": Pattern(pattern="bars", size=[64, 48], frames=2)}
Pipeline(sources=sources, steps=[Detect(model=sys.argv[1], engine="onnxruntime")]).run()
"""
CONFIG = """
sources: {cam: {pattern: bars, size: [64, 48], frames: 2}}
pipeline: [{detect: {model: MODEL, engine: onnxruntime}}]
"""


def home_after(arguments: list[str], home: Path) -> list[str]:
    """Run a process with an empty home folder, and return what it left there."""
    settings = ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    variables = {name: value for name, value in os.environ.items() if name not in settings}
    home.mkdir()
    done = subprocess.run(
        arguments,
        cwd=home.parent,
        env={**variables, "HOME": str(home), "SIGHTLINE_CACHE": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return sorted(str(path.relative_to(home)) for path in home.rglob("*"))


@pytest.fixture
def model(repository: Path) -> Path:
    return repository / "models" / "street.onnx"


def test_onnxruntime_alone_leaves_an_identifier_so_that_these_tests_can_fail(tmp_path: Path, model: Path) -> None:
    code = "import sys, onnxruntime; onnxruntime.InferenceSession(sys.argv[1])"

    left = home_after([sys.executable, "-c", code, str(model)], tmp_path / "home")

    if not left:
        pytest.skip("this build of ONNX Runtime reports nothing")
    assert any(path.endswith("deviceid") for path in left)


def test_a_run_leaves_nothing_in_the_home_folder(tmp_path: Path, model: Path) -> None:
    (tmp_path / "one.yaml").write_text(CONFIG.replace("MODEL", str(model)))

    assert home_after(command("run", "one.yaml"), tmp_path / "home") == []


def test_a_program_leaves_nothing_in_the_home_folder(tmp_path: Path, model: Path) -> None:
    assert home_after([sys.executable, "-c", PROGRAM, str(model)], tmp_path / "home") == []


@pytest.mark.parametrize("arguments", [("doctor",), ("verify", "MODEL", "--count", "1")], ids=["doctor", "verify"])
def test_commands_leave_nothing_in_the_home_folder(tmp_path: Path, model: Path, arguments: tuple[str, ...]) -> None:
    named = [str(model) if one == "MODEL" else one for one in arguments]

    assert home_after(command(*named), tmp_path / "home") == []
