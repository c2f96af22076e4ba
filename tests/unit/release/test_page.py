"""The page on installing agrees with the metadata of the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from tools.release.environment import LARGEST_MB


def test_the_page_lists_every_dependency_but_opencv_and_every_extra(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    page = (repository / "docs" / "installing.md").read_text()
    listed = re.search(r"pip install (anyio .*)$", page, re.MULTILINE)

    assert listed is not None
    assert listed[1].split() == sorted(
        requirement.name
        for requirement in map(Requirement, project["dependencies"])
        if requirement.name != "opencv-python-headless"
    )
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE) == sorted(project["optional-dependencies"])


def test_the_limit_of_size_is_that_of_the_decision(repository: Path) -> None:
    (decision,) = (repository / "docs" / "decisions").glob("0031-*.md")

    assert decision.read_text().startswith(f"# 31. A base installation takes at most {LARGEST_MB} MB\n")
