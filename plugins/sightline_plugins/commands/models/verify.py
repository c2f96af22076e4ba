"""`sightline models verify`: whether the files of the store are still those that were added."""

from __future__ import annotations

from pathlib import Path

import click

from sightline.cli.options import debug_option
from sightline_plugins.commands.models.store_options import store_of, store_option, stored_names


@click.command("verify", short_help="Compare the files of the store with their SHA-256.")
@click.argument("models", nargs=-1, metavar="[NAME[@VERSION]]...", shell_complete=stored_names)
@click.option("--run", "runs", is_flag=True, help="Also compare cards with graphs, and run each network once.")
@store_option
@debug_option
@click.pass_context
def verify(context: click.Context, models: tuple[str, ...], runs: bool, store_folder: Path | None) -> None:
    """Read every file of these versions, or of all, and compare it with its record: size and SHA-256.

    The exit code is 1 when one is damaged. (`sightline verify MODEL` is something else: it compares what a step makes
    of images with a plain reading.)
    """
    from sightline.errors import ModelError
    from sightline_plugins.model_import.judging import judge
    from sightline_plugins.store import Reference

    store = store_of(store_folder)
    wanted = [Reference.parse(one) for one in models] or [Reference(name) for name in store.names()]
    chosen = []
    for one in wanted:
        versions = store.versions(one.name) if one.version is None else (one.version,)
        if not versions or one.version not in (None, *store.versions(one.name)):
            store.find(one)
        chosen += [Reference(one.name, version) for version in versions]
    damaged = 0
    for reference in chosen:
        try:
            stored = store.stored(reference.name, reference.version or "")
            wrong = stored.damage
            if runs and wrong is None:
                judge(stored.model)
        except ModelError as error:
            wrong = str(error)
        damaged += wrong is not None
        click.echo(f"{reference}: whole" if wrong is None else wrong)
    if not chosen:
        click.echo(f"the store {store.folder} is empty")
    context.exit(1 if damaged else 0)
