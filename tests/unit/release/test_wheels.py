"""Which wheels a system and a version of Python accept, and what a lock tells about them."""

from __future__ import annotations

from typing import Any

import pytest
from tools.release.wheels import SYSTEMS, accepted_tags, base_packages, lacking, table


def package(*wheels: str, needs: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "wheels": [{"url": f"https://files.example.org/one-1.0-{tags}.whl"} for tags in wheels],
        "dependencies": [{"name": name} for name in needs],
    }


@pytest.mark.parametrize(
    ("wheel", "system", "python", "expected"),
    [
        ("py3-none-any", "Windows x86-64", "3.14t", True),
        ("cp311-cp311-manylinux_2_28_x86_64", "Linux x86-64", "3.11", True),
        ("cp311-cp311-manylinux_2_28_x86_64", "Linux x86-64", "3.12", False),
        ("cp311-cp311-manylinux_2_28_x86_64", "Linux aarch64", "3.11", False),
        ("cp37-abi3-manylinux2014_aarch64", "Linux aarch64", "3.14", True),
        ("cp37-abi3-manylinux2014_aarch64", "Linux aarch64", "3.14t", False),
        ("cp314-cp314t-macosx_11_0_arm64", "macOS arm64", "3.14t", True),
        ("cp314-cp314-macosx_11_0_arm64", "macOS arm64", "3.14t", False),
        ("cp314-cp314-win_amd64", "Windows x86-64", "3.14", True),
    ],
)
def test_a_wheel_fits_a_system_and_a_python(wheel: str, system: str, python: str, expected: bool) -> None:
    lock = {"one": [package(wheel)]}

    assert (lacking(lock, ["one"], accepted_tags(python, SYSTEMS[system])) == []) is expected


def test_one_of_several_versions_is_enough() -> None:
    older, newer = package("cp311-cp311-win_amd64"), package("cp312-cp312-win_amd64")

    assert lacking({"one": [older, newer]}, ["one"], accepted_tags("3.11", SYSTEMS["Windows x86-64"])) == []


def test_an_installation_is_what_is_needed_without_extras() -> None:
    lock = {
        "sightline": [package(needs=("one",))],
        "one": [package("py3-none-any", needs=("two",))],
        "two": [package("cp314-cp314-win_amd64")],
        "three": [package("py3-none-any")],
    }

    assert base_packages(lock) == ["one", "two"]
    assert table(lock).splitlines()[-1] == "| Windows x86-64 | two | two | two | all | two |"
