"""Generate the reference and build the site: `python -m tools.docs [--check]`.

With `--check` nothing in the repository changes: a generated page that differs from what the code says is an error.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.docs.layers import drawing
from tools.docs.reference import reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = ("elements", "sources")
"""Folders below `docs/` in which every page is generated."""


LAYERS = ("<!-- layers: begin -->", "<!-- layers: end -->")
"""Around the drawing on the architecture page."""


def architecture(text: str) -> str:
    """Return the architecture page with the drawing of the layers as the imports are now."""
    before, _, rest = text.partition(LAYERS[0])
    _, _, after = rest.partition(LAYERS[1])
    return f"{before}{LAYERS[0]}\n\n{drawing()}\n\n{LAYERS[1]}{after}"


def generated() -> dict[str, str]:
    """Return the text of every page that is generated, in whole or in part, by its path below `docs/`."""
    page = "guide/architecture.md"
    return {**reference(), page: architecture((DOCS / page).read_text())}


def differing(pages: Mapping[str, str], docs: Path) -> list[str]:
    """Return the generated pages that are missing, out of date or left over, by their path below `docs`."""
    present = {str(path.relative_to(docs)) for folder in GENERATED for path in (docs / folder).glob("*.md")}
    wrong = {name for name, text in pages.items() if not (docs / name).exists() or (docs / name).read_text() != text}
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
    pages = generated()
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
