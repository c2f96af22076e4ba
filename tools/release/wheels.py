"""Print for which systems and versions of Python all dependencies have wheels: `python -m tools.release.wheels`.

The files of each dependency come from the package index, through `uv lock`. A wheel for a system proves that pip can
install there, not that Sightline runs there. The table is on `docs/installing.md`, with what was really tried.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import parse_wheel_filename

from tools.release.artefacts import ROOT, ReleaseError, call

PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.14t")
_LATEST_GLIBC = 39
_MACOS = (14, 0)

Lock = Mapping[str, Sequence[Mapping[str, Any]]]
"""Packages by name; several entries where versions of Python need several versions."""


def platforms(system: str, machine: str) -> list[str]:
    """Return the platform tags that pip accepts on a recent release of a system, the most special first."""
    if system == "Linux":
        tags = [f"manylinux_2_{minor}_{machine}" for minor in range(_LATEST_GLIBC, 4, -1)]
        old = ("manylinux2014", "manylinux2010", "manylinux1") if machine == "x86_64" else ("manylinux2014",)
        return [*tags, *(f"{name}_{machine}" for name in old)]
    if system == "macOS":
        return list(mac_platforms(_MACOS, machine))
    return [f"win_{machine}"]


SYSTEMS = {
    "Linux x86-64": platforms("Linux", "x86_64"),
    "Linux aarch64": platforms("Linux", "aarch64"),
    "macOS arm64": platforms("macOS", "arm64"),
    "Windows x86-64": platforms("Windows", "amd64"),
}


def accepted_tags(python: str, accepted: Iterable[str]) -> set[Tag]:
    """Return the tags of wheels that a CPython installs; `3.14t` is the free-threaded build, without stable ABI."""
    accepted = list(accepted)
    version = (3, int(python.removeprefix("3.").removesuffix("t")))
    name = "cp" + python.replace(".", "")
    own = [name] if python.endswith("t") else None
    return {
        *cpython_tags(version, abis=own, platforms=accepted),
        *compatible_tags(version, interpreter=name, platforms=accepted),
    }


def read_lock(folder: Path) -> Lock:
    """Lock the dependencies of this project in an empty folder, and return the packages of the lock by name.

    Raises ReleaseError when uv fails.
    """
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, folder)
    call(Path(sys.executable).with_name("uv"), "lock", "--quiet", cwd=folder)
    packages: dict[str, list[Mapping[str, Any]]] = {}
    for package in tomllib.loads((folder / "uv.lock").read_text())["package"]:
        packages.setdefault(package["name"], []).append(package)
    return packages


def base_packages(lock: Lock) -> list[str]:
    """Return what an installation without extras consists of, sorted, without Sightline itself."""
    found, waiting = {"sightline"}, ["sightline"]
    while waiting:
        entries = lock[waiting.pop()]
        needed = {one["name"] for entry in entries for one in entry.get("dependencies", ()) if not _elsewhere(one)}
        waiting += needed - found
        found |= needed
    return sorted(found - {"sightline"})


def lacking(lock: Lock, names: Iterable[str], tags: set[Tag]) -> list[str]:
    """Return those packages that have no wheel with one of these tags."""
    return [name for name in names if not any(tags & wheel for wheel in _wheels(lock[name]))]


def table(lock: Lock) -> str:
    """Return the table: systems, versions of Python, and which packages have no wheel there."""
    names = base_packages(lock)
    rows = []
    for system, accepted in SYSTEMS.items():
        cells = [", ".join(lacking(lock, names, accepted_tags(python, accepted))) or "all" for python in PYTHONS]
        rows.append(f"| {system} | {' | '.join(cells)} |")
    return "\n".join((f"| | {' | '.join(PYTHONS)} |", "|---" * (len(PYTHONS) + 1) + "|", *rows))


def _wheels(entries: Sequence[Mapping[str, Any]]) -> Iterator[frozenset[Tag]]:
    for wheel in (wheel for entry in entries for wheel in entry.get("wheels", ())):
        yield parse_wheel_filename(wheel["url"].rsplit("/", 1)[-1])[3]


def _elsewhere(dependency: Mapping[str, Any]) -> bool:
    """Whether it is needed on Windows or macOS only, such as colorama."""
    return "sys_platform == 'win32'" in dependency.get("marker", "")


def main() -> int:
    """Print the table; 1 when the index cannot be asked."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            lock = read_lock(Path(folder))
        except ReleaseError as error:
            print(error, file=sys.stderr)
            return 1
    print(f"{len(base_packages(lock))} packages")
    print(table(lock))
    return 0


if __name__ == "__main__":
    sys.exit(main())
