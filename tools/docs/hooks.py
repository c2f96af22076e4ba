"""What MkDocs calls while it builds the site: the weight of a page in the search, and short tables of contents."""

from __future__ import annotations

from typing import Any

from mkdocs.structure.pages import Page

WEIGHTS = {"decisions/": 0.002, "benchmarks/": 0.01, "extend/": 0.5, "quickstart": 2.0, "troubleshooting": 1.5}
"""Pages by the beginning of their path, and their weight; 1 for all others. Readers rarely look for a note of 2026."""
SECTIONS_ONLY = ("troubleshooting.md",)
"""Pages with so many headings that the table of contents beside them lists their sections alone."""


def on_page_markdown(markdown: str, /, *, page: Page, **_: object) -> str:
    """Weigh a page in the results of the search; its text stays as it is."""
    found = [weight for start, weight in WEIGHTS.items() if page.file.src_uri.startswith(start)]
    page.meta.setdefault("search", {"boost": found[0] if found else 1.0})
    return markdown


def on_page_context(context: dict[str, Any], /, *, page: Page, **_: object) -> dict[str, Any]:
    """Shorten the table of contents of a page where that is wanted."""
    if page.file.src_uri in SECTIONS_ONLY:
        for title in page.toc:
            for section in title.children:
                section.children.clear()
    return context
