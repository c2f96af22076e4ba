"""Diagrams: fenced blocks of Mermaid, drawn once, kept as SVG, and put into the page when the site is built.

A reader's browser needs neither Mermaid nor a network, and a build needs neither Node.js nor a browser. Only a new or
changed diagram does: `python -m tools.docs` then takes Mermaid from the npm registry, checks its hash, and draws the
block in Chromium. Hosts of Markdown that know Mermaid draw the same block themselves.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from pymdownx.superfences import SuperFencesException

ROOT = Path(__file__).resolve().parents[2]
DRAWN = ROOT / "docs" / "images" / "diagrams"
MERMAID = "mermaid@12.3.0"
INTEGRITY = "4113TdXeLAsMruJ79OpFL5O8+LTFXhQqZ260rF3tgUmiNAtRm4Uume04I+65PRN6yZ69J4f8rVYWW8zRk65UYw=="
"""SHA-512 of the package, as the npm registry states it."""
SCRIPT = "package/dist/mermaid.min.js"
CHROMIUM = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
_BLOCK = re.compile(r"^```mermaid\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
SETTINGS = {
    "startOnLoad": False,
    "htmlLabels": False,
    "flowchart": {"htmlLabels": False, "curve": "basis"},
    "theme": "base",
    "fontFamily": "system-ui, sans-serif",
    # Colours come from the page, so that a diagram follows its light and dark scheme.
    "themeCSS": """
      * { font-family: var(--md-text-font, sans-serif) !important; }
      .node rect, .node polygon, .node circle, .node path, .actor, .note, rect.basic {
        fill: var(--md-code-bg-color, #f5f5f5) !important;
        stroke: var(--md-primary-fg-color--light, #2b7f8f) !important; }
      .cluster rect { fill: var(--md-default-fg-color--lightest, #eee) !important;
        stroke: var(--md-default-fg-color--light, #888) !important; }
      text, tspan, .cluster-label text { fill: var(--md-default-fg-color, #222) !important; }
      .edgeLabel rect, .labelBkg, rect.background { fill: var(--md-default-bg-color, #fff) !important;
        opacity: 1 !important; }
      .flowchart-link, .transition, path.relation { stroke: var(--md-default-fg-color--light, #888) !important; }
      marker path, .marker { fill: var(--md-default-fg-color--light, #888) !important;
        stroke: var(--md-default-fg-color--light, #888) !important; }
    """,
}
PAGE = "<!doctype html><meta charset=utf-8><body></body>"


def name_of(source: str) -> str:
    """Return the name of the file that a diagram is kept in: a digest of its source and of the settings."""
    told = f"{MERMAID}\n{SETTINGS}\n{source.strip()}"
    return f"{hashlib.sha256(told.encode()).hexdigest()[:12]}.svg"


def sources(pages: Iterable[Path]) -> dict[str, str]:
    """Return the source of every diagram on the pages by the name of its file."""
    found = (match["text"] for page in pages for match in _BLOCK.finditer(page.read_text()))
    return {name_of(text): text for text in found}


def differing(wanted: Mapping[str, str], folder: Path = DRAWN) -> list[str]:
    """Return the names of drawings that are missing or left over."""
    return sorted({path.name for path in folder.glob("*.svg")} ^ set(wanted))


def fence(source: str, language: str, class_name: str, options: dict[str, str], md: object, **settings: object) -> str:
    """Return the HTML of a fenced block of Mermaid: the drawing itself. The signature is that of SuperFences.

    Raises SuperFencesException if the block was not drawn since it changed; others SuperFences would swallow.
    """
    del language, class_name, options, md, settings
    path = DRAWN / name_of(source)
    if not path.exists():
        raise SuperFencesException(f"{path.name}: a diagram is not drawn; run `python -m tools.docs` and commit")
    return f'<div class="diagram">{path.read_text()}</div>'


def draw(wanted: Mapping[str, str], folder: Path = DRAWN) -> None:
    """Draw the diagrams that are missing and delete those that no page has.

    Needs npm, Playwright and Chromium if something is missing. Raises RuntimeError if one of them is not there, or if
    the package is not the one that was agreed on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    changed = differing(wanted, folder)
    for name in set(changed) - set(wanted):
        (folder / name).unlink()
    if missing := {name: wanted[name] for name in changed if name in wanted}:
        for name, svg in _drawn(missing).items():
            (folder / name).write_text(svg + "\n")


def _drawn(missing: Mapping[str, str]) -> dict[str, str]:
    from playwright.sync_api import sync_playwright

    browser_path = next((path for path in CHROMIUM if Path(path).exists()), None)
    if browser_path is None:
        raise RuntimeError(f"drawing a diagram needs Chromium; looked for {', '.join(CHROMIUM)}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content(PAGE)
        page.add_script_tag(content=_script())
        page.evaluate("settings => mermaid.initialize(settings)", SETTINGS)
        drawn = {}
        for name, source in missing.items():
            number = name.removesuffix(".svg")
            svg = page.evaluate(
                "async ([id, text]) => (await mermaid.render(id, text)).svg", [f"diagram-{number}", source]
            )
            drawn[name] = str(svg)
        browser.close()
    return drawn


def _script() -> str:
    """Return Mermaid's script from its package in the npm registry."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", MERMAID]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"`npm pack {MERMAID}` failed: {done.stderr.strip()}")
        package = next(Path(folder).glob("*.tgz"))
        found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
        if found != INTEGRITY:
            raise RuntimeError(f"{MERMAID} has the SHA-512 {found}, not {INTEGRITY}")
        with tarfile.open(package) as archive:
            member = archive.extractfile(SCRIPT)
            if member is None:
                raise RuntimeError(f"{MERMAID} has no {SCRIPT}")
            return member.read().decode()
