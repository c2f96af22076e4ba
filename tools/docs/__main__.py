"""Make the element reference and build the site: `python -m tools.docs [--check]`.

With `--check` nothing in the repository changes: a reference that is not what the code says is an error.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.docs.reference import reference

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "elements.md"


def main(arguments: list[str]) -> int:
    """Make or check the reference, then build the site in a temporary folder."""
    made = reference()
    if "--check" not in arguments:
        REFERENCE.write_text(made)
    elif not REFERENCE.exists() or REFERENCE.read_text() != made:
        print("docs/elements.md is not what the code says: run `python -m tools.docs` and commit it", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as site:
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", site]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
