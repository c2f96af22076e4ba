"""What MkDocs calls while it builds the site: the weight of a page in the search."""

from __future__ import annotations

from mkdocs.structure.pages import Page

WEIGHTS = {"decisions/": 0.002, "benchmarks/": 0.01, "extend/": 0.5, "quickstart": 2.0, "troubleshooting": 1.5}
"""Pages by the beginning of their path, and their weight; 1 for all others. Readers rarely look for a note of 2026."""


def on_page_markdown(markdown: str, /, *, page: Page, **_: object) -> str:
    """Weigh a page in the results of the search; its text stays as it is."""
    found = [weight for start, weight in WEIGHTS.items() if page.file.src_uri.startswith(start)]
    page.meta.setdefault("search", {"boost": found[0] if found else 1.0})
    return markdown
