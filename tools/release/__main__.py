"""Make a release: `python -m tools.release [FOLDER]`, from a clean clone to checked artefacts in `dist/`.

Steps: the tree is clean and the changelog has the version; sdist and wheels are built twice, equal to the byte, and
hold what they should; `twine check`; the wheel for this system is installed with its dependencies and runs the demo;
its size; licences, SBOM, known vulnerabilities; the documentation, built twice; checksums. The first failure ends it.
Nothing is uploaded.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tools.release.artefacts import (
    ROOT,
    ReleaseError,
    build_twice,
    call,
    check_sdist,
    check_wheel,
    read_release,
    tracked_files,
    write_checksums,
)
from tools.release.audit import audit
from tools.release.environment import check_sizes, install, installed_sizes, run_demo, size_table, write_sbom
from tools.release.licences import as_markdown, examine, installed_packages
from tools.release.site import build_site
from tools.release.wheel_hook import system


def make(target: Path, scratch: Path) -> None:
    """Make the artefacts in an empty or missing folder. Raises ReleaseError at the first thing that is wrong."""
    if target.exists() and any(target.iterdir()):
        raise ReleaseError(f"{target} is not empty: remove what is in it, or name another folder")
    release = read_release()
    print(f"sightline {release.version}, commit {release.commit}")
    sdist, wheels = build_twice(release, scratch)
    print("built twice, equal to the byte:", sdist.name, *(wheel.name for wheel in wheels))
    tracked = tracked_files()
    packed = check_sdist(sdist, tracked, version=release.version)
    (held,) = {check_wheel(wheel, tracked, version=release.version) for wheel in wheels}
    print(f"contents: {held} files in each wheel, {packed} in the sdist, none too many")
    call(sys.executable, "-m", "twine", "check", "--strict", sdist, *wheels)
    print("twine check: passed")
    (own,) = [wheel for wheel in wheels if system().tag in wheel.name]
    installed = install(own, scratch / "venv")
    run_demo(installed, scratch)
    print("installed into a new environment, demo run")
    sizes = installed_sizes(installed)
    check_sizes(sizes)
    print(size_table(sizes))
    target.mkdir(parents=True, exist_ok=True)
    name = f"sightline-{release.version}"
    base, extras = examine(installed.installed(), extras=()), examine(installed_packages())
    known = {one.name for one in base}
    table = as_markdown([*base, *(one for one in extras if one.name not in known)])
    (target / f"{name}-licences.md").write_text(table)
    print(f"licences: {len(base)} packages, {len(extras)} with all extras")
    write_sbom(installed, target / f"{name}.cdx.json")
    passes, text = audit()
    if not passes:
        raise ReleaseError(text)
    print(f"audit: {text}")
    build_site(release, scratch, target / f"{name}-docs.tar.gz")
    print("documentation built twice, equal to the byte")
    for path in (sdist, *wheels):
        shutil.copy2(path, target)
    print(write_checksums(target).read_text(), end="")


def main(arguments: list[str]) -> int:
    """Make a release; 1 when something is wrong."""
    target = Path(arguments[0]).resolve() if arguments else ROOT / "dist"
    with tempfile.TemporaryDirectory() as scratch:
        try:
            make(target, Path(scratch))
        except ReleaseError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
