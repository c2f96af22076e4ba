"""`sightline models push`: bring versions of this store to another one."""

from __future__ import annotations

from pathlib import Path

import click

from sightline.cli.options import debug_option
from sightline_plugins.commands.models.store_options import store_of, store_option, stored_names, transfer_bar


@click.command("push", short_help="Bring models of this store to another one: a folder, or a bucket.")
@click.argument("models", nargs=-1, required=True, metavar="NAME[@VERSION]...", shell_complete=stored_names)
@click.option(
    "--to", "target", required=True, metavar="STORE", help="The other store: a folder, or s3://BUCKET/PREFIX."
)
@click.option(
    "--stall-timeout",
    type=click.FloatRange(min=0.1),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Take a server that needs longer for one request (5 MiB) for gone.",
)
@store_option
@debug_option
def push(models: tuple[str, ...], target: str, stall_timeout: float, store_folder: Path | None) -> None:
    """Bring versions of the store to another store, from which `sightline models pull` takes them.

    Without a version it is the newest one. The files are read there again and compared by SHA-256; then the version
    appears, whole. One that is there with the same files is left alone, one with other files is refused. A push that
    broke off is continued by the same command.

    Server, region and credentials of a bucket are those of the environment: AWS_ENDPOINT_URL (for MinIO, Ceph, ...),
    AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. It needs `pip install 'sightline[s3]'`.
    """
    from sightline_plugins.store.transfer import open_place
    from sightline_plugins.store.transfer import push as push_version

    store = store_of(store_folder)
    chosen = [store.find(one) for one in dict.fromkeys(models)]
    place = open_place(target, timeout_seconds=stall_timeout)
    for stored in chosen:
        with transfer_bar(str(stored.reference), stored.record.bytes) as progress:
            is_new = push_version(stored, place, progress=progress)
        state = "" if is_new else " (was there: the same files)"
        click.echo(f"{stored.reference}: in {place.address}{state}")
