"""The parts of the navigation in `mkdocs.yml` that follow from which pages there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.docs.reference import FAMILIES, grouped, source_names

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CONFIGURATION = ROOT / "mkdocs.yml"
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def navigation(text: str, commands: Iterable[str]) -> str:
    """Return the configuration of the site with its generated parts as they should be now.

    `commands` are the pages of the command line, below `docs/`. Raises ValueError if markers are missing.
    """
    parts = {
        "reference": _reference(commands),
        "benchmarks": _section("benchmarks"),
        "decisions": _section("decisions"),
    }
    for name, lines in parts.items():
        found = re.search(rf"^(?P<indent> *)# {name}: begin\n.*?^ *# {name}: end$", text, re.DOTALL | re.MULTILINE)
        if found is None:
            raise ValueError(f"mkdocs.yml has no lines `# {name}: begin` and `# {name}: end`")
        indent = found["indent"]
        body = "".join(f"{indent}{line}\n" for line in lines)
        text = f"{text[: found.start()]}{indent}# {name}: begin\n{body}{indent}# {name}: end{text[found.end() :]}"
    return text


def _reference(commands: Iterable[str]) -> Iterator[str]:
    yield "- Elements and sources:"
    yield "    - elements/index.md"
    for group, names in grouped().items():
        yield f"    - {group}:"
        yield from (f"        - elements/{name}.md" for name in names)
        yield from (f"        - elements/{family.page}.md" for family in FAMILIES if family.group == group)
    yield "    - Sources:"
    yield from (f"        - sources/{name}.md" for name in source_names())
    yield "- Command line:"
    yield from (f"    - {page}" for page in commands)


def _section(folder: str) -> Iterator[str]:
    """Yield the index of a folder, then its other pages: numbered ones by number, the others by title."""
    yield f"- {folder}/index.md"
    pages = sorted((DOCS / folder).glob("*.md"), key=lambda page: page.name if page.name[0].isdigit() else _title(page))
    yield from (f"- {folder}/{page.name}" for page in pages if page.name != "index.md")


def _title(page: Path) -> str:
    found = _TITLE.search(page.read_text())
    return found[1] if found else page.stem
