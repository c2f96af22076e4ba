"""The element reference: a page in Markdown from what elements and sources say of themselves."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.config.reference import Page, page_of
from sightline.graph import Registry

PACKAGE = "sightline"

HEAD = """# Elements and sources

Made from the code by `python -m tools.docs`; `sightline elements NAME` shows the same page for what is installed on
your machine. Every step also takes `id` and `streams`.
"""


def reference() -> str:
    """The whole page."""
    registry = Registry()
    elements = [page_of(registry.element(name)) for name in registry.element_names if registry.package(name) == PACKAGE]
    sources = [page_of(registry.source(name)) for name in registry.source_names if registry.package(name) == PACKAGE]
    parts = [HEAD, _index(elements, sources), "## Elements"]
    parts += ["\n\n".join(_section(page)) for page in elements]
    parts.append("## Sources")
    parts += ["\n\n".join(_section(page)) for page in sources]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _index(elements: list[Page], sources: list[Page]) -> str:
    rows = [f"| [`{page.name}`](#{page.name}) | {page.purpose} |" for page in (*elements, *sources)]
    return "\n".join(["| name | purpose |", "|---|---|", *rows])


def _section(page: Page) -> Iterator[str]:
    yield f"### {page.name}"
    yield page.purpose
    if page.text:
        yield page.text
    if page.needs or page.gives:
        yield f"Needs: {', '.join(page.needs) or 'nothing'}. Gives: {', '.join(page.gives) or 'nothing'}."
    if page.example:
        yield f"```yaml\n{page.example}\n```"
    if page.options:
        rows = [
            f"| `{option.key}` | {_cell(option.type)} | {_default(option.default, required=option.required)} "
            f"| {_cell(option.meaning)} |"
            for option in page.options
            if option.key not in ("id", "streams")
        ]
        yield "\n".join(["| option | type | default | meaning |", "|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _default(default: str, *, required: bool) -> str:
    if required:
        return "required"
    return f"`{_cell(default)}`" if default else ""
