"""List the licences of all dependencies, and refuse those that are unknown or that nobody has thought about.

`python -m tools.release.licences` examines the running environment: Sightline, its extras, and what these need. A
licence comes from the metadata of a package. Permissive ones pass; every other one, and every package that holds
libraries of others (`libs/` or `NAME.libs/` in its wheel), needs an entry with a reason in `licences.toml`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.release.artefacts import ReleaseError

REASONED = Path(__file__).with_name("licences.toml")
EXTRAS = ("delivery", "eval", "gpu", "gpu-cu12", "pycuda", "tensorrt", "tensorrt-cu12", "triton", "web")
PERMISSIVE = frozenset(
    (
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "HPND", "ISC", "MIT", "MIT-0", "MIT-CMU"),
        *("PSF-2.0", "Python-2.0", "Unlicense", "Zlib", "ZPL-2.1"),
    )
)
"""SPDX names of licences that ask for no more than a notice."""
SPELLINGS = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd 3-clause license": "BSD-3-Clause",
    "freebsd": "BSD-2-Clause",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}
"""What packages write instead of an SPDX name. "BSD License" is not here, because it names several licences."""
_NAME = re.compile(r"[\w.+-]+")
_LIBRARIES = re.compile(r"[./]libs/")
_OPERATORS = {"AND", "OR", "WITH"}


@dataclass(frozen=True, slots=True)
class Package:
    """A dependency: its version (empty where it is not installed), its licence, and what its wheel brings of others."""

    name: str
    version: str
    licence: str
    reason: str = ""
    bundled: str = ""


def dependencies(installed: Mapping[str, Distribution], *, extras: Iterable[str] = EXTRAS) -> set[str]:
    """Return the names of everything that Sightline needs with these extras, also of what is not installed."""
    found: set[str] = set()
    waiting = [("sightline", extra) for extra in ("", *extras)]
    done = set(waiting)
    while waiting:
        name, extra = waiting.pop()
        found.add(name)
        for requirement in map(Requirement, (installed[name].requires or []) if name in installed else []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                pairs = {(canonicalize_name(requirement.name), wanted) for wanted in ("", *requirement.extras)}
                waiting += pairs - done
                done |= pairs
    return found - {"sightline"}


def licence_of(package: Distribution) -> str | None:
    """Return the licence that a package's metadata state, as an SPDX expression, or None when they leave it open."""
    metadata = package.metadata
    if expressions := metadata.get_all("License-Expression"):
        return str(expressions[0])
    classifiers = [line.split(" :: ")[-1] for line in metadata.get_all("Classifier", []) if line.startswith("License")]
    first_line = "".join(metadata.get_all("License", [])).strip().partition("\n")[0]
    for text in (first_line.removeprefix("OSI Approved :: "), *classifiers):
        if text in PERMISSIVE or text.lower() in SPELLINGS:
            return SPELLINGS.get(text.lower()) or str(text)
    return None


def is_permissive(expression: str) -> bool:
    """Whether an SPDX expression asks for no more than notices: each part of it, or one of plain alternatives."""
    names = [name for name in _NAME.findall(expression) if name not in _OPERATORS]
    plain_choice = " OR " in expression and "(" not in expression and " AND " not in expression
    return (any if plain_choice else all)(name in PERMISSIVE for name in names)


def examine(installed: Mapping[str, Distribution], *, extras: Iterable[str] = EXTRAS) -> list[Package]:
    """Return all dependencies with their licences, sorted by name.

    Raises ReleaseError that names every package whose licence is unknown or needs a reason that `licences.toml` lacks.
    """
    reasoned = tomllib.loads(REASONED.read_text())
    packages, problems = [], []
    for name in sorted(dependencies(installed, extras=extras)):
        entry = reasoned.get(name, {})
        licence = entry.get("licence") or (licence_of(installed[name]) if name in installed else None)
        brings = name in installed and any(_LIBRARIES.search(str(file)) for file in installed[name].files or ())
        if licence is None:
            problems.append(f"{name}: its metadata name no licence that is known here")
        elif not is_permissive(licence) and not entry.get("reason"):
            problems.append(f"{name}: {licence} needs a reason")
        elif brings and not entry.get("bundled"):
            problems.append(f"{name}: its wheel brings libraries of others; list them under `bundled`")
        version = installed[name].version if name in installed else ""
        packages.append(
            Package(name, version, licence or "unknown", entry.get("reason", ""), entry.get("bundled", ""))
        )  # fmt: skip
    if problems:
        raise ReleaseError("licences: add entries to tools/release/licences.toml for\n  " + "\n  ".join(problems))
    return packages


def as_markdown(packages: Iterable[Package]) -> str:
    """Return the table of licences."""
    rows = [
        f"| {one.name} | {one.version or 'not installed here'} | {one.licence} | {one.bundled} | {one.reason} |"
        for one in packages
    ]
    head = (
        "# Licences of the dependencies",
        "",
        "| package | version | licence | brings | reason |",
        "|---|---|---|---|---|",
    )
    return "\n".join((*head, *rows, ""))


def installed_packages(path: list[str] | None = None) -> dict[str, Distribution]:
    """Return what is installed in the folders of a path (that of this interpreter by default), by normal name."""
    found: dict[str, Distribution] = {}
    for one in _distributions(path):
        found.setdefault(canonicalize_name(one.metadata["Name"]), one)
    return found


def _distributions(path: list[str] | None) -> Iterator[Distribution]:
    yield from distributions() if path is None else distributions(path=path)


def main() -> int:
    """Print the table; return 1 when a licence is refused."""
    try:
        print(as_markdown(examine(installed_packages())), end="")
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
