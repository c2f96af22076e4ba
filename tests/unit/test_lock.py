"""The lock file and the hosted workflow agree with pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

LINE = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;]+)")


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def locked(repository: Path) -> dict[str, list[str]]:
    versions: dict[str, list[str]] = {}
    for line in (repository / "requirements.lock").read_text().splitlines():
        if match := LINE.match(line):
            versions.setdefault(canonicalize_name(match["name"]), []).append(match["version"])
    return versions


def test_every_dependency_is_locked_at_a_version_that_it_allows(
    project: dict[str, Any], locked: dict[str, list[str]]
) -> None:
    wanted = [Requirement(text) for text in (*project["project"]["dependencies"], *project["dependency-groups"]["dev"])]
    wrong = [
        str(requirement)
        for requirement in wanted
        if not any(requirement.specifier.contains(v) for v in locked.get(canonicalize_name(requirement.name), []))
    ]

    assert wrong == []


def test_the_lock_names_no_registry_and_every_entry_has_a_hash(repository: Path) -> None:
    text = (repository / "requirements.lock").read_text()
    entries = re.split(r"\n(?=\S)", text)

    assert "://" not in text
    assert [entry for entry in entries if LINE.match(entry) and "--hash=sha256:" not in entry] == []


def test_the_workflow_tests_every_python_that_the_package_allows(repository: Path, project: dict[str, Any]) -> None:
    allowed = SpecifierSet(project["project"]["requires-python"])
    versions = [f"3.{minor}" for minor in range(30) if allowed.contains(f"3.{minor}")]
    workflow = YAML(typ="safe").load((repository / ".github/workflows/ci.yml").read_text())
    matrix = workflow["jobs"]["tests"]["strategy"]["matrix"]

    assert matrix["python"] == versions
    assert [extra["may-fail"] for extra in matrix["include"] if extra["python"] not in versions] == [True]
