"""`sightline models list`: what the store has, and the catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline_plugins.commands.models.store_options import store_of, store_option

if TYPE_CHECKING:
    from sightline_plugins.store import Store, Stored

_MB = 1e6


@click.command("list", short_help="List the models of the store and of the catalogue.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with classes, licences, figures and addresses.")
@store_option
def list_models(as_json: bool, store_folder: Path | None) -> None:
    """List the models of the store, for `model: store:NAME@VERSION`, and those of the catalogue, which may be used in
    products, for `model: NAME` after `sightline models pull NAME`.

    A figure of the catalogue is what this project's own tests measured; a model without one was not at hand, and its
    card follows the code of its authors.
    """
    from sightline.cli.text import columns, output_width
    from sightline_plugins.catalogue import entries, pulled

    store = store_of(store_folder)
    stored, damaged = _stored(store)
    if as_json:
        click.echo(json.dumps(_as_json(stored, damaged), indent=2))
        return
    width = output_width()
    click.echo(f"Store {store.folder}")
    if stored:
        click.echo(columns([_HEAD, *map(_row, stored)], indent="  ", width=width))
    for text in damaged:
        click.echo(f"  {text}")
    if not stored and not damaged:
        click.echo("  empty: `sightline models add PATH` puts a model into it")
    rows = [("name", "step", "MB", "licence", "here", "what for, and what was measured")]
    for name, entry in entries().items():
        measured = "; ".join(map(str, entry.measured)) or "not measured: the file was not at hand"
        here = "yes" if pulled(name) is not None else ""
        rows.append(
            (name, entry.task, f"{entry.bytes / _MB:.1f}", str(entry.licence), here, f"{entry.summary} ({measured})")
        )
    click.echo("\nCatalogue: `sightline models pull NAME` brings one to this machine")
    click.echo(columns(rows, indent="  ", width=width))


_HEAD = ("name", "step", "MB", "licence", "added", "from")


def _row(stored: Stored) -> tuple[str, ...]:
    record = stored.record
    licence = record.licence or "not stated"
    return (
        str(record.reference),
        record.task,
        f"{record.bytes / _MB:.1f}",
        licence,
        record.added.partition("T")[0],
        f"{record.origin.place} ({record.origin.kind})",
    )


def _stored(store: Store) -> tuple[list[Stored], list[str]]:
    """Return what can be used, and a sentence for each version that cannot."""
    from sightline.errors import ModelError

    found, damaged = [], []
    for name in store.names():
        for version in store.versions(name):
            try:
                found.append(store.usable(f"{name}@{version}"))
            except ModelError as error:
                damaged.append(str(error))
    return found, damaged


def _as_json(stored: list[Stored], damaged: list[str]) -> dict[str, object]:
    import msgspec

    return {
        "store": [{**msgspec.to_builtins(one.record), "file": str(one.model)} for one in stored],
        "damaged": damaged,
        "catalogue": list(_catalogue()),
    }


def _catalogue() -> Iterator[dict[str, object]]:
    from sightline_plugins.catalogue import entries, pulled

    for name, entry in entries().items():
        file = pulled(name)
        yield {**entry.model_dump(mode="json"), "file": None if file is None else str(file)}
