"""Build the documentation site reproducibly, as one archive: twice, equal to the byte."""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from pathlib import Path

from tools.docs.site import build
from tools.release.artefacts import ROOT, Release, ReleaseError, call


def build_site(release: Release, scratch: Path, target: Path) -> Path:
    """Build the site twice and pack it into `target`.

    The archive has the folder of the version beside the list of versions (`tools.docs.site`). Raises ReleaseError when
    a page has a mistake or the two builds differ.
    """
    first, again = _checked(release, scratch / "site"), scratch / "site again"
    build(again, release.version, epoch=release.epoch)
    archives = [packed(folder, release) for folder in (first, again)]
    if archives[0] != archives[1]:
        raise ReleaseError("two builds of the documentation differ: look for times and random numbers in its pages")
    target.write_bytes(archives[0])
    return target


def _checked(release: Release, folder: Path) -> Path:
    command = (sys.executable, "-m", "tools.docs", "--check", "--site", folder, "--version", release.version)
    call(*command, cwd=ROOT, env={"SOURCE_DATE_EPOCH": str(release.epoch)})
    return folder


def packed(folder: Path, release: Release) -> bytes:
    """Return a gzipped tar of a folder in which only names and contents count: sorted, one time, one owner."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(f"sightline-{release.version}-docs/{path.relative_to(folder)}")
            entry.size, entry.mtime, entry.mode = path.stat().st_size, release.epoch, 0o644
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return gzip.compress(plain.getvalue(), mtime=release.epoch)
