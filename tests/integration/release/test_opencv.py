"""Environments with either package of OpenCV, with both, and with one that cannot be loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.integration.release.environments import Environment, new_environment

PLAIN, HEADLESS = "opencv-python", "opencv-python-headless"
DEMO = "sightline_plugins/samples/data/configs/demo.yaml"


def pip(environment: Environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--python", str(environment.folder / "bin" / "python"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def environment_with(folder: Path, wheel: Path, *packages: str) -> Environment:
    """An environment whose OpenCV comes from these packages of the index, installed in this order."""
    made = new_environment(folder / "venv", wheel, without=("cv2", "opencv_"))
    for package in packages:
        done = pip(made, "install", "--quiet", "--no-deps", "--only-binary", ":all:", package)
        if done.returncode != 0:
            missing(f"pip cannot install {package} here: {done.stderr.strip().splitlines()[-1]}")
    return made


def run_demo(environment: Environment, folder: Path) -> subprocess.CompletedProcess[str]:
    config = str(environment.packages / DEMO)
    return environment.run("sightline", "run", config, "--frames", "5", "--quiet", cwd=folder)


def opencv_row(environment: Environment, folder: Path) -> str:
    done = environment.run("sightline", "doctor", cwd=folder)
    assert done.returncode == 0, done.stderr
    return next(line for line in done.stdout.splitlines() if line.strip().startswith("OpenCV"))


@pytest.mark.parametrize("package", [PLAIN, HEADLESS])
def test_either_package_of_opencv_is_enough(tmp_path: Path, wheel: Path, package: str) -> None:
    environment = environment_with(tmp_path, wheel, package)

    done = run_demo(environment, tmp_path)

    assert done.returncode == 0, done.stderr
    assert ("(opencv-python)" in opencv_row(environment, tmp_path)) == (package == PLAIN)


def test_doctor_reports_both_packages_and_the_command_that_keeps_one(tmp_path: Path, wheel: Path) -> None:
    environment = environment_with(tmp_path, wheel, PLAIN, HEADLESS)

    row = opencv_row(environment, tmp_path)

    assert "overwrite each other's files" in row
    assert row.endswith(f"pip uninstall -y {HEADLESS} {PLAIN} && pip install {HEADLESS}")


def test_what_is_left_after_one_of_both_was_removed_is_reported(tmp_path: Path, wheel: Path) -> None:
    environment = environment_with(tmp_path, wheel, HEADLESS, PLAIN)
    assert pip(environment, "uninstall", "--yes", PLAIN).returncode == 0

    done = run_demo(environment, tmp_path)

    assert done.returncode == 2
    assert "OpenCV cannot be imported" in done.stderr
    assert f"pip install --force-reinstall --no-deps {HEADLESS}" in done.stderr
    assert "--force-reinstall" in opencv_row(environment, tmp_path)


def test_a_missing_library_of_the_system_is_named_with_the_package_to_install_instead(
    tmp_path: Path, wheel: Path
) -> None:
    environment = environment_with(tmp_path, wheel, PLAIN)
    needed, absent = b"libGL.so.1\0", b"libGX.so.1\0"
    for folder in ("cv2", "opencv_python.libs"):
        for library in (environment.packages / folder).glob("*.so*"):
            library.write_bytes(library.read_bytes().replace(needed, absent))

    done = run_demo(environment, tmp_path)

    assert done.returncode == 2
    assert f"{PLAIN} needs libGX.so.1, which this system lacks" in done.stderr
    assert f"pip uninstall -y {PLAIN} && pip install {HEADLESS}" in done.stderr


def test_an_environment_without_opencv_is_told_what_to_install(tmp_path: Path, wheel: Path) -> None:
    environment = environment_with(tmp_path, wheel)

    done = run_demo(environment, tmp_path)

    assert done.returncode == 2
    assert f"it is not installed: pip install {HEADLESS}" in done.stderr
