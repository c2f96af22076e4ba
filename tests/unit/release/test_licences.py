"""Licences of dependencies: what passes, what is refused, and with which words."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path

import pytest
from tools.release.artefacts import ReleaseError
from tools.release.licences import (
    PERMISSIVE,
    SPELLINGS,
    as_markdown,
    dependencies,
    examine,
    installed_packages,
    is_permissive,
    licence_of,
)


def write_package(folder: Path, name: str, *lines: str, files: str = "") -> None:
    """The metadata of an installed package."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("\n".join(("Metadata-Version: 2.4", f"Name: {name}", "Version: 1.0", *lines, "")))
    (about / "RECORD").write_text(files)


def installed(folder: Path) -> dict[str, Distribution]:
    return installed_packages([str(folder)])


def test_every_dependency_of_this_installation_passes() -> None:
    packages = {one.name: one for one in examine(installed_packages())}

    assert {"av", "numpy", "openvino", "tritonclient", "tensorrt-cu13"} <= packages.keys()
    assert "x264" in packages["av"].bundled
    assert "| av | " in as_markdown(packages.values())


def test_dependencies_of_dependencies_and_of_extras_are_found(tmp_path: Path) -> None:
    write_package(tmp_path, "sightline", "Requires-Dist: one", "Requires-Dist: two[fast]; extra == 'web'")
    write_package(tmp_path, "one", "Requires-Dist: three; sys_platform == 'nowhere'")
    write_package(tmp_path, "two", "Requires-Dist: four; extra == 'fast'", "Requires-Dist: five; extra == 'slow'")

    assert dependencies(installed(tmp_path), extras=()) == {"one"}
    assert dependencies(installed(tmp_path), extras=("web",)) == {"one", "two", "four"}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["License-Expression: MIT OR GPL-3.0-only"], "MIT OR GPL-3.0-only"),
        (["License: Apache 2.0"], "Apache-2.0"),
        (["License: see the file", "Classifier: License :: OSI Approved :: MIT License"], "MIT"),
        (["License: BSD"], None),
        (["Classifier: License :: OSI Approved :: BSD License"], None),
        ([], None),
    ],
)
def test_a_licence_is_read_from_the_metadata(tmp_path: Path, lines: list[str], expected: str | None) -> None:
    write_package(tmp_path, "one", *lines)

    assert licence_of(installed(tmp_path)["one"]) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR GPL-3.0-only) AND BSD-3-Clause", False),
        ("GPL-3.0-or-later WITH GCC-exception-3.1", False),
        ("LGPL-2.1-or-later", False),
    ],
)
def test_an_expression_is_permissive_when_each_part_is(expression: str, expected: bool) -> None:
    assert is_permissive(expression) is expected


def test_unknown_copyleft_and_bundled_libraries_are_refused_together(tmp_path: Path) -> None:
    write_package(tmp_path, "sightline", *(f"Requires-Dist: {name}" for name in ("silent", "gnu", "fat", "fine")))
    write_package(tmp_path, "silent")
    write_package(tmp_path, "gnu", "License-Expression: GPL-3.0-or-later")
    write_package(tmp_path, "fat", "License-Expression: MIT", files="fat.libs/libx-1.so,,\n")
    write_package(tmp_path, "fine", "License-Expression: MIT", files="fine/__init__.py,,\n")

    with pytest.raises(ReleaseError) as refused:
        examine(installed(tmp_path), extras=())

    assert str(refused.value).splitlines()[1:] == [
        "  fat: its wheel brings libraries of others; list them under `bundled`",
        "  gnu: GPL-3.0-or-later needs a reason",
        "  silent: its metadata name no licence that is known here",
    ]


def test_every_spelling_stands_for_an_spdx_name() -> None:
    assert {one for one in SPELLINGS.values() if one not in PERMISSIVE} == {"MPL-2.0"}
