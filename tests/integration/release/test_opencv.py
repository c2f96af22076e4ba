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


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """An environment with `opencv-python`."""
    return environment_with(tmp_path_factory.mktemp("plain"), wheel, PLAIN)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """An environment with both packages, `opencv-python` installed last."""
    return environment_with(tmp_path_factory.mktemp("both"), wheel, HEADLESS, PLAIN)


def test_the_other_package_of_opencv_is_enough(plain: Environment, tmp_path: Path) -> None:
    done = run_demo(plain, tmp_path)

    assert done.returncode == 0, done.stderr
    assert "(opencv-python)" in opencv_row(plain, tmp_path)


def test_doctor_reports_both_packages_and_the_command_that_keeps_one(both: Environment, tmp_path: Path) -> None:
    row = opencv_row(both, tmp_path)

    assert "overwrite each other's files" in row
    assert row.endswith(f"pip uninstall -y {HEADLESS} {PLAIN} && pip install {HEADLESS}")


def test_what_is_left_after_one_of_both_was_removed_is_reported(both: Environment, tmp_path: Path) -> None:
    assert pip(both, "uninstall", "--yes", PLAIN).returncode == 0

    done = run_demo(both, tmp_path)

    assert done.returncode == 2
    assert "OpenCV cannot be imported" in done.stderr
    assert f"pip install --force-reinstall --no-deps {HEADLESS}" in done.stderr
    assert "--force-reinstall" in opencv_row(both, tmp_path)


def test_a_missing_library_of_the_system_is_named_with_the_package_to_install_instead(
    plain: Environment, tmp_path: Path
) -> None:
    needed, absent = b"libGL.so.1\0", b"libGX.so.1\0"
    for folder in ("cv2", "opencv_python.libs"):
        for library in (plain.packages / folder).glob("*.so*"):
            library.write_bytes(library.read_bytes().replace(needed, absent))

    done = run_demo(plain, tmp_path)

    assert done.returncode == 2
    assert f"{PLAIN} needs libGX.so.1, which this system lacks" in done.stderr
    assert f"pip uninstall -y {PLAIN} && pip install {HEADLESS}" in done.stderr


def test_an_environment_without_opencv_is_told_what_to_install(tmp_path: Path, wheel: Path) -> None:
    environment = environment_with(tmp_path, wheel)

    done = run_demo(environment, tmp_path)

    assert done.returncode == 2
    assert f"it is not installed: pip install {HEADLESS}" in done.stderr
