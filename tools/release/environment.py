"""A virtual environment with a wheel and everything that it needs, as a newcomer gets it: installed sizes, SBOM, time.

`python -m tools.release.environment WHEEL` makes one, runs the demo in it, and prints how long each step took and which
packages take how much space. The packages come from the index that pip is configured for.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from tools.release.artefacts import ReleaseError, call
from tools.release.licences import installed_packages

MEGABYTE = 1_000_000
INSTALLERS = ("pip", "setuptools")
"""Packages that `python -m venv` brings; they are no part of Sightline."""
LARGEST_MB = 700
"""Limit of a base installation, without pip (decision 31)."""
SECONDS = 120
"""Limit from an empty environment to the end of the demo, on a quiet machine with a fast network."""


@dataclass(slots=True)
class Environment:
    """A virtual environment with Sightline, and the seconds that steps on the way took."""

    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Its `site-packages`."""
        return self.folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"

    def installed(self) -> dict[str, Distribution]:
        """Return its packages by name."""
        return installed_packages([str(self.packages)])


def install(wheel: Path, folder: Path, *, keep_downloads: bool = True) -> Environment:
    """Make an environment in a folder and install a wheel with its dependencies; pip's cache is optional.

    Raises ReleaseError when pip fails.
    """
    made = Environment(folder)
    began = time.perf_counter()
    call(sys.executable, "-m", "venv", folder)
    made.seconds["make an environment"] = time.perf_counter() - began
    began = time.perf_counter()
    cache = () if keep_downloads else ("--no-cache-dir",)
    call(made.python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *cache, wheel)
    made.seconds["pip install"] = time.perf_counter() - began
    return made


def run_demo(environment: Environment, folder: Path) -> None:
    """Run the demo of an environment in a folder. Raises ReleaseError when it fails."""
    began = time.perf_counter()
    call(
        environment.folder / "bin" / "sightline",
        "demo",
        "demo",
        "--no-open",
        "--port",
        "0",
        "--duration",
        "20s",
        cwd=folder,
    )
    environment.seconds["sightline demo"] = time.perf_counter() - began


def installed_sizes(environment: Environment) -> dict[str, float]:
    """Return how many megabytes each package takes in an environment, the largest first; pip itself is left out."""
    sizes = {
        name: sum(
            path.stat().st_size for file in one.files or () if (path := Path(str(one.locate_file(file)))).is_file()
        )
        for name, one in environment.installed().items()
        if name not in INSTALLERS
    }
    return {name: size / MEGABYTE for name, size in sorted(sizes.items(), key=lambda item: -item[1])}


def size_table(sizes: dict[str, float], *, rows: int = 10) -> str:
    """Return the largest packages, the rest, and the sum as a Markdown table."""
    largest = list(sizes.items())[:rows]
    lines = ["| package | MB |", "|---|---|", *(f"| {name} | {size:.1f} |" for name, size in largest)]
    rest = sum(sizes.values()) - sum(size for _, size in largest)
    return "\n".join(
        (*lines, f"| {len(sizes) - len(largest)} others | {rest:.1f} |", f"| all | {sum(sizes.values()):.1f} |")
    )


def check_sizes(sizes: dict[str, float]) -> None:
    """Raise ReleaseError when all packages together are larger than they may be."""
    if (total := sum(sizes.values())) > LARGEST_MB:
        raise ReleaseError(
            f"a base installation takes {total:.0f} MB, the limit is {LARGEST_MB} MB; see docs/decisions/0031\n"
            + size_table(sizes)
        )


def write_sbom(environment: Environment, target: Path) -> Path:
    """Write the packages of an environment as a CycloneDX document, the same for the same packages."""
    options = ("--output-reproducible", "--of", "JSON", "--output-file", target)
    call(sys.executable, "-m", "cyclonedx_py", "environment", *options, environment.python)
    document = without_traces(json.loads(target.read_text()))
    target.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    return target


def without_traces(document: dict[str, Any]) -> dict[str, Any]:
    """Return an SBOM without what belongs to the place where it was made: the installers, and paths of files there."""
    installers = {one["bom-ref"] for one in document["components"] if one["name"] in INSTALLERS}
    components = [
        {**one, "externalReferences": [link for link in one.get("externalReferences", ()) if _is_public(link["url"])]}
        for one in document["components"]
        if one["bom-ref"] not in installers
    ]
    dependencies = [one for one in document["dependencies"] if one["ref"] not in installers]
    return {**document, "components": components, "dependencies": dependencies}


def _is_public(url: str) -> bool:
    return not url.startswith("file:")


def main(arguments: list[str]) -> int:
    """Measure size and time of a newcomer's installation; 1 when it fails or is larger than it may be."""
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        print("usage: python -m tools.release.environment WHEEL   (`make release` builds one)", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = install(Path(arguments[0]).resolve(), Path(folder) / "venv", keep_downloads=False)
            run_demo(made, Path(folder))
            sizes = installed_sizes(made)
            print(size_table(sizes), end="\n\n")
            for step, seconds in made.seconds.items():
                print(f"{step:20} {seconds:6.1f} s")
            print(f"{'all':20} {sum(made.seconds.values()):6.1f} s, aimed at less than {SECONDS} s on a quiet machine")
            check_sizes(sizes)
        except ReleaseError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
