"""What is released: from which tree, with which contents, equal in every build."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
from tools.release.artefacts import (
    METADATA,
    ReleaseError,
    build_twice,
    check_sdist,
    check_wheel,
    read_release,
    write_checksums,
)
from tools.release.wheel_hook import LIBRARY, SAMPLES, TARGET

TRACKED = ["pipeline/sightline/__init__.py", "tests/test_one.py", "models/street.onnx", *SAMPLES]
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "sightline"
version = "1.2.3"
[tool.hatch.build.targets.wheel]
packages = ["pipeline/sightline"]
"""
CHANGES = "# Changes\n\n## [1.2.3] - 2026-11-24\n\n- One.\n\n## [1.2.2] - 2026-11-01\n"


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small repository whose newest commit is a release."""
    folder = tmp_path / "project"
    (folder / "pipeline" / "sightline").mkdir(parents=True)
    (folder / "pipeline" / "sightline" / "__init__.py").write_text("")
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "CHANGELOG.md").write_text(CHANGES)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


def write_wheel(path: Path, *, without: str = "", extra: str = "", points: str = "sightline:main") -> Path:
    names = {
        "sightline/__init__.py",
        LIBRARY,
        *(f"{TARGET}/{name}" for name in (*SAMPLES, "models/street.onnx")),
        *(f"sightline-1.2.3.dist-info/{name}" for name in METADATA),
    }
    with ZipFile(path, "w") as archive:
        for name in sorted((names | {extra}) - {without, ""}):
            text = f"[console_scripts]\nsightline = {points}\n" if name.endswith("entry_points.txt") else ""
            archive.writestr(name, text)
    return path


def test_a_release_is_described_by_a_clean_tree_with_its_version_in_the_changelog(project: Path) -> None:
    release = read_release(project)

    assert release.version == "1.2.3"
    assert len(release.commit) == 40
    assert release.epoch > 1_700_000_000


def test_a_tree_with_changes_is_refused_with_the_files(project: Path) -> None:
    (project / "new.txt").write_text("new")

    with pytest.raises(ReleaseError, match=r"(?s)not clean.*new\.txt"):
        read_release(project)


@pytest.mark.parametrize(
    "changes",
    [
        "# Changes\n\n## [Unreleased]\n\n## [1.2.3] - 2026-11-24\n",
        "# Changes\n\n## [1.2.3]\n",
        "# Changes\n\n## [1.2.2] - 2026-11-24\n",
        "",
    ],
    ids=["something is unreleased", "no date", "another version", "empty"],
)
def test_a_changelog_that_does_not_begin_with_the_version_and_a_date_is_refused(project: Path, changes: str) -> None:
    (project / "CHANGELOG.md").write_text(changes)
    git(project, "commit", "--quiet", "--all", "--message", "changes")

    with pytest.raises(ReleaseError, match=r"first section must be `## \[1\.2\.3\] - YYYY-MM-DD`"):
        read_release(project)


def test_two_builds_of_a_commit_are_equal_to_the_byte_and_leave_out_what_git_ignores(
    project: Path, tmp_path: Path
) -> None:
    (project / ".git" / "info" / "exclude").write_text("*.local\n")
    (project / "pipeline" / "sightline" / "mine.local").write_text("mine")

    sdist, (wheel,) = build_twice(read_release(project), tmp_path / "scratch", root=project)

    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if name.endswith(".local")]
    with ZipFile(wheel) as packed:
        assert "sightline/__init__.py" in packed.namelist()
        assert not [name for name in packed.namelist() if name.endswith(".local")]


def test_a_build_that_depends_on_its_folder_is_refused(project: Path, tmp_path: Path) -> None:
    hook = "[tool.hatch.build.hooks.custom]\n"
    code = (
        "from hatchling.builders.hooks.plugin.interface import BuildHookInterface\n"
        "class Hook(BuildHookInterface):\n"
        "    def initialize(self, version, build_data):\n"
        "        open(f'{self.root}/pipeline/sightline/where.py', 'w').write(self.root)\n"
    )
    (project / "pyproject.toml").write_text(PROJECT + hook)
    (project / "hatch_build.py").write_text(code)
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "hook")

    with pytest.raises(ReleaseError, match=r"two builds of the same commit differ in sightline-1\.2\.3"):
        build_twice(read_release(project), tmp_path / "scratch", root=project)


def test_a_wheel_holds_packages_samples_and_metadata(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "one.whl")

    assert check_wheel(wheel, TRACKED, version="1.2.3") == 3 + len(SAMPLES) + len(METADATA)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"without": f"{TARGET}/models/street.onnx"}, "lacks .*street.onnx"),
        ({"without": LIBRARY}, "lacks .*libsightline.so"),
        ({"extra": "tests/test_one.py"}, "holds files that git does not track: tests/test_one.py; holds what must not"),
        ({"extra": "sightline/fast.so"}, "must not be released: sightline/fast.so"),
        ({"points": "sightline.gone:main"}, "entry points of modules that it does not hold: sightline.gone"),
    ],
    ids=[
        "a model is missing",
        "the compiled part is missing",
        "a test is in it",
        "compiled code is in it",
        "an entry point leads nowhere",
    ],
)
def test_a_wheel_with_other_contents_is_refused(tmp_path: Path, changes: dict[str, str], told: str) -> None:
    wheel = write_wheel(tmp_path / "one.whl", **changes)

    with pytest.raises(ReleaseError, match=told):
        check_wheel(wheel, TRACKED, version="1.2.3")


def test_an_sdist_without_a_tracked_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "PKG-INFO").write_text("")
    with tarfile.open(tmp_path / "one.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "PKG-INFO", "sightline-1.2.3/PKG-INFO")

    with pytest.raises(ReleaseError, match=r"one.tar.gz lacks README.md"):
        check_sdist(tmp_path / "one.tar.gz", ["README.md"], version="1.2.3")


def test_checksums_are_those_that_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b c.txt").write_text("b")

    write_checksums(tmp_path)

    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True)
