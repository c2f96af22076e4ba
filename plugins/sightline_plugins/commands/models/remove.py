"""`sightline models remove`: take versions out of the store."""

from __future__ import annotations

from pathlib import Path

import click

from sightline.cli.options import debug_option
from sightline_plugins.commands.models.store_options import store_of, store_option, stored_names


@click.command("remove", short_help="Take a model out of the store.")
@click.argument("model", metavar="NAME[@VERSION]", shell_complete=stored_names)
@click.option("--all", "everything", is_flag=True, help="Remove all versions of NAME.")
@store_option
@debug_option
def remove(model: str, everything: bool, store_folder: Path | None) -> None:
    """Remove a version of a model, with what was made beside it (a quantised file).

    NAME alone is enough where it has one version. Pipelines that run keep what they have loaded; those that name it
    fail when they start again.
    """
    from sightline.errors import ConfigurationError
    from sightline_plugins.store import Reference

    store, wanted = store_of(store_folder), Reference.parse(model)
    versions = store.versions(wanted.name)
    if everything and wanted.version is not None:
        raise ConfigurationError(f"--all removes all versions: give {wanted.name} without @{wanted.version}")
    if not everything and wanted.version is None and len(versions) > 1:
        raise ConfigurationError(
            f"{wanted.name} has versions {', '.join(versions)}: give one ({wanted.name}@{versions[-1]}), or --all"
        )
    chosen = versions if wanted.version is None else tuple(one for one in versions if one == wanted.version)
    if not chosen:
        store.find(wanted)
    for version in chosen:
        store.remove(wanted.name, version)
        click.echo(f"removed {Reference(wanted.name, version)}")
