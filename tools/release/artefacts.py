"""Build sdist and wheels twice from clean clones, and check that both builds are equal and hold what they should.

The time in the archives is that of the commit (`SOURCE_DATE_EPOCH`). There is a wheel for each system, compiled here;
that for this system is built from the sdist, so the sdist is complete. What must be in them follows from the files that
git tracks; anything else is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from tools.release.wheel_hook import LIBRARY, SAMPLES, SYSTEMS, TARGET, VARIABLE

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"pipeline/sightline/": "sightline/", "plugins/sightline_plugins/": "sightline_plugins/"}
"""Folders of the repository that the wheel holds, and their names in it."""
METADATA = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
FORBIDDEN = re.compile(r"(^|/)(tests?|fakes|benchmarks|shared)(/|$)|\.(pt|pth|engine|so|dll|pyd|pyc)$")
"""What no wheel of ours may hold, whatever git tracks: tests, models of others, compiled code but for `LIBRARY`."""


class ReleaseError(Exception):
    """Something about the release is not as it must be; the message says what, and what to do."""


@dataclass(frozen=True, slots=True)
class Release:
    """What is released: its version, the commit, and the commit's time in seconds since 1970."""

    version: str
    commit: str
    epoch: int


def read_release(root: Path = ROOT) -> Release:
    """Return the release that a clean tree describes.

    Raises ReleaseError when the tree has changes or the changelog has no section with the version and its date.
    """
    if changed := _git(root, "status", "--porcelain"):
        raise ReleaseError(f"the tree is not clean: commit or remove\n{changed}")
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    newest = headings[0] if headings else ("", "")
    if newest[0] != version or not newest[1]:
        raise ReleaseError(
            f"CHANGELOG.md begins with [{newest[0]}], pyproject.toml has version {version}: "
            f"the first section must be `## [{version}] - YYYY-MM-DD`"
        )
    return Release(version, _git(root, "rev-parse", "HEAD"), int(_git(root, "log", "-1", "--format=%ct")))


def build_twice(release: Release, scratch: Path, *, root: Path = ROOT) -> tuple[Path, list[Path]]:
    """Build from two clones in folders of different names; return the sdist and the wheels of the first.

    Raises ReleaseError when the builds differ.
    """
    built = [_build(release, scratch / name, root) for name in ("first", "the second build")]
    first, second = ({path.name: sha256(path) for path in paths} for paths in built)
    if first != second:
        differing = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
        raise ReleaseError(f"two builds of the same commit differ in {', '.join(differing)}: look for times and paths")
    (sdist,), wheels = ([path for path in built[0] if path.suffix == suffix] for suffix in (".gz", ".whl"))
    return sdist, wheels


def check_wheel(wheel: Path, tracked: Iterable[str], *, version: str) -> int:
    """Check that a wheel holds the packages, the samples and its metadata, and nothing else; return how many files."""
    expected = {LIBRARY, *(f"sightline-{version}.dist-info/{name}" for name in METADATA)}
    for name in tracked:
        for folder, packed in PACKAGES.items():
            if name.startswith(folder):
                expected.add(packed + name.removeprefix(folder))
        if name in SAMPLES or name.startswith("models/"):
            expected.add(f"{TARGET}/{name}")
    with ZipFile(wheel) as archive:
        held = set(archive.namelist())
        points = archive.read(f"sightline-{version}.dist-info/entry_points.txt").decode()
    _compare(wheel.name, held, expected)
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in held}
    if lost := sorted(set(re.findall(r"= ?([\w.]+):", points)) - modules):
        raise ReleaseError(f"{wheel.name} has entry points of modules that it does not hold: {', '.join(lost)}")
    return len(held)


def check_sdist(sdist: Path, tracked: Iterable[str], *, version: str) -> int:
    """Check that an sdist holds what git tracks, and nothing else; return how many files."""
    with tarfile.open(sdist) as archive:
        held = {member.name.removeprefix(f"sightline-{version}/") for member in archive if not member.isdir()}
    _compare(sdist.name, held, {*tracked, "PKG-INFO"}, forbidden=None)
    return len(held)


def tracked_files(root: Path = ROOT) -> list[str]:
    """Return the paths that git tracks."""
    return _git(root, "ls-files", "-z").strip("\0").split("\0")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_checksums(folder: Path) -> Path:
    """Write `SHA256SUMS` of all other files of a folder, in the form that `sha256sum --check` reads."""
    target = folder / "SHA256SUMS"
    files = sorted(path for path in folder.iterdir() if path.is_file() and path != target)
    target.write_text("".join(f"{sha256(path)}  {path.name}\n" for path in files))
    return target


def call(*command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """Run a program and return its output. Raises ReleaseError with the end of what it printed when it fails."""
    variables = {**os.environ, **(env or {})}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        printed = "\n".join((done.stdout + done.stderr).strip().splitlines()[-30:])
        raise ReleaseError(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{printed}")
    return done.stdout


def _build(release: Release, folder: Path, root: Path) -> list[Path]:
    source, target = folder / "source", folder / "dist"
    call("git", "clone", "--quiet", "--no-local", root, source)
    call("git", "checkout", "--quiet", release.commit, cwd=source)
    environment = {"SOURCE_DATE_EPOCH": str(release.epoch)}
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", target)
    call(*build, source, cwd=source, env=environment)
    for name in SYSTEMS:
        call(*build, "--wheel", source, cwd=source, env={**environment, VARIABLE: name})
    return sorted(target.iterdir())


def _compare(name: str, held: set[str], expected: set[str], *, forbidden: re.Pattern[str] | None = FORBIDDEN) -> None:
    problems = []
    if lacking := sorted(expected - held):
        problems.append(f"lacks {', '.join(lacking)}")
    if excess := sorted(held - expected):
        problems.append(f"holds files that git does not track: {', '.join(excess)}")
    if forbidden is not None and (wrong := sorted(path for path in held - {LIBRARY} if forbidden.search(path))):
        problems.append(f"holds what must not be released: {', '.join(wrong)}")
    if problems:
        raise ReleaseError(f"{name} {'; '.join(problems)}")


def _git(root: Path, *arguments: str) -> str:
    return call("git", *arguments, cwd=root).rstrip("\n")
