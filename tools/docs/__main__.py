"""Generate the reference and build the site: `python -m tools.docs [--check] [--site FOLDER] [--version VERSION]`.

With `--check` nothing in the repository changes: a generated page that differs from what the code says is an error.
Without `--site` the site is built in a temporary folder, to see whether its pages and links are right.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from tools.docs import diagrams
from tools.docs.catalogue import catalogue
from tools.docs.commands import commands
from tools.docs.layers import drawing
from tools.docs.navigation import CONFIGURATION, navigation
from tools.docs.reference import reference
from tools.docs.site import DEVELOPMENT, build

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = ("elements", "sources", "commands")
"""Folders below `docs/` in which every page is generated."""


LAYERS = ("<!-- layers: begin -->", "<!-- layers: end -->")
"""Around the drawing on the architecture page."""


def architecture(text: str) -> str:
    """Return the architecture page with the drawing of the layers as the imports are now."""
    before, _, rest = text.partition(LAYERS[0])
    _, _, after = rest.partition(LAYERS[1])
    return f"{before}{LAYERS[0]}\n\n{drawing()}\n\n{LAYERS[1]}{after}"


def generated() -> dict[str, str]:
    """Return the text of every file that is generated, in whole or in part, by its path below `docs/`."""
    page, about_commands = "guide/architecture.md", commands()
    return {
        **reference(),
        **catalogue(),
        **about_commands,
        page: architecture((DOCS / page).read_text()),
        "../mkdocs.yml": navigation(CONFIGURATION.read_text(), about_commands),
    }


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


@click.command()
@click.option("--check", is_flag=True, help="Change nothing in the repository; what is out of date is an error.")
@click.option("--site", type=click.Path(path_type=Path, file_okay=False), help="Folder of the site, with its versions.")
@click.option("--version", default=DEVELOPMENT, show_default=True, help="The version that is built: a release, or dev.")
def main(check: bool, site: Path | None, version: str) -> None:
    """Write or check what is generated, then build the site."""
    pages, drawn = generated(), diagrams.sources(sorted(DOCS.rglob("*.md")))
    if not check:
        write(pages, DOCS)
        diagrams.draw(drawn)
    elif wrong := [*differing(pages, DOCS), *(f"images/diagrams/{name}" for name in diagrams.differing(drawn))]:
        print("Out of date; run `python -m tools.docs` and commit:", *wrong, sep="\n  docs/", file=sys.stderr)
        sys.exit(1)
    try:
        if site is not None:
            print(build(site, version))
        else:
            with tempfile.TemporaryDirectory() as folder:
                build(Path(folder), version)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except RuntimeError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
