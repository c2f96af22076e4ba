"""`sightline elements`: what is installed, and the page of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from sightline.cli.options import debug_option
from sightline.cli.text import columns, output_width, paragraphs

if TYPE_CHECKING:
    from sightline.config.schema import OptionPage, Page
    from sightline.graph.registry import Registry


def _names_that_begin(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return what a shell may complete."""
    del ctx, param
    from sightline.graph.registry import Registry

    registry = Registry()
    return [name for name in (*registry.element_names, *registry.source_names) if name.startswith(incomplete)]


@click.command("elements")
@click.argument("name", required=False, shell_complete=_names_that_begin)
@debug_option
def command(name: str | None) -> None:
    """List the installed elements and sources; with NAME, explain one: its options and an example."""
    from sightline.graph.registry import Registry

    registry = Registry()
    click.echo(_listing(registry) if name is None else _page(registry, name))


def _listing(registry: Registry) -> str:
    width = output_width()
    groups = (("Elements", registry.element_names), ("Sources", registry.source_names))
    shown = [f"{title}\n{columns(_rows(registry, names, title), indent='  ', width=width)}" for title, names in groups]
    return "\n\n".join([*shown, "sightline elements NAME explains one."])


def _rows(registry: Registry, names: list[str], title: str) -> Iterator[tuple[str, str, str]]:
    from sightline.config.schema import purpose_of
    from sightline.errors import ConfigurationError

    for name in names:
        try:
            described = registry.element(name) if title == "Elements" else registry.source(name)
            purpose = purpose_of(described)
        except ConfigurationError as error:
            purpose = f"(cannot be used: {error})"
        yield name, registry.package(name), purpose


def _page(registry: Registry, name: str) -> str:
    from sightline.config.document import unknown
    from sightline.config.schema import page_of
    from sightline.errors import UnknownElement

    if name in registry.element_names:
        page, kind = page_of(registry.element(name)), "element"
    elif name in registry.source_names:
        page, kind = page_of(registry.source(name)), "source"
    else:
        raise UnknownElement(unknown("element or source", name, [*registry.element_names, *registry.source_names]))
    return "\n\n".join(_parts(page, f"{name}: {kind} of the package {registry.package(name)}"))


def _parts(page: Page, title: str) -> Iterator[str]:
    width = output_width()
    yield title
    yield paragraphs(page.purpose, width=width)
    if page.text:
        yield paragraphs(page.text, width=width)
    if page.needs or page.gives:
        yield f"Needs: {', '.join(page.needs) or 'nothing'}. Gives: {', '.join(page.gives) or 'nothing'}."
    yield "\n".join(["Options", *(option_text(one, width=width) for one in page.options)])
    if page.example:
        yield "Example\n" + "\n".join(f"  {line}" for line in page.example.splitlines())


def option_text(option: OptionPage, *, width: int | None) -> str:
    """A line with key, type, default and whether it changes live, and below it the meaning in lines of `width`: some
    types fill a line.
    """
    default = "required" if option.required else f"default {option.default}" if option.default else ""
    live = "changes live" if option.changes_live else ""
    head = "  ".join(part for part in (option.key, option.type, default, live) if part)
    return f"  {head}\n{columns([('', option.meaning)], indent='      ', gap='', width=width)}"
