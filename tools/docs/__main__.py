"""Generate the reference and build the site: `python -m tools.docs [--check]`.

With `--check` nothing in the repository changes: a generated page that differs from what the code says is an error.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.docs.reference import reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = ("elements", "sources")
"""Folders below `docs/` in which every page is generated."""


def differing(pages: Mapping[str, str], docs: Path) -> list[str]:
    """Return the generated pages that are missing, out of date or left over, by their path below `docs`."""
    present = {str(path.relative_to(docs)) for folder in GENERATED for path in (docs / folder).glob("*.md")}
    wrong = {name for name, text in pages.items() if name not in present or (docs / name).read_text() != text}
    return sorted(wrong | (present - set(pages)))


def write(pages: Mapping[str, str], docs: Path) -> None:
    """Write every generated page, and delete those that are no longer generated."""
    for name in differing(pages, docs):
        if name in pages:
            (docs / name).parent.mkdir(exist_ok=True)
            (docs / name).write_text(pages[name])
        else:
            (docs / name).unlink()


def main(arguments: list[str]) -> int:
    """Write or check the generated pages, then build the site in a temporary folder."""
    pages = reference()
    if "--check" not in arguments:
        write(pages, DOCS)
    elif wrong := differing(pages, DOCS):
        print("Out of date; run `python -m tools.docs` and commit:", *wrong, sep="\n  docs/", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as site:
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", site]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
