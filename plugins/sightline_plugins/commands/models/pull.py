"""`sightline models pull`: bring models of the catalogue, or of another store, to this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline.cli.options import debug_option
from sightline_plugins.commands.models.store_options import transfer_bar

if TYPE_CHECKING:
    from sightline_plugins.catalogue import Entry

_MB = 1e6


def _names_that_begin(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return what a shell may complete."""
    del ctx, param
    from sightline_plugins.catalogue import entry_names

    return [name for name in entry_names() if name.startswith(incomplete)]


@click.command("pull", short_help="Bring models of the catalogue, or of another store, to this machine.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=_names_that_begin)
@click.option(
    "--from",
    "origin",
    metavar="FOLDER|URL",
    help="A folder that has the files, for machines without a network; for store:NAME the other store, a folder or "
    "s3://BUCKET/PREFIX.",
)
@click.option("--accept-licence", is_flag=True, help="Accept the licences without being asked.")
@click.option(
    "--stall-timeout",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Take a server that sends nothing for this long for gone; a bucket, that needs longer for 2 MiB.",
)
@debug_option
def pull(names: tuple[str, ...], origin: str | None, accept_licence: bool, stall_timeout: float) -> None:
    """Bring models into the store: those of the catalogue by NAME, those of another store by store:NAME[@VERSION].

    A model of the catalogue comes with its card, its labels and its licence, which is asked for once.
    SIGHTLINE_MODELS_MIRROR names a mirror, a URL or a folder that has NAME/NAME.onnx.

    A version of another store (--from) comes as it is there, with its number; `sightline models push` brings it there.
    Server, region and credentials of a bucket are those of the environment: AWS_ENDPOINT_URL, AWS_REGION,
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. It needs `pip install 'sightline[s3]'`.

    All files are checked by size and SHA-256. A download that broke off goes on where it ended. Proxies are those of
    the environment (HTTPS_PROXY), and SIGHTLINE_MODELS is the folder of the store.
    """
    from sightline_plugins.store.record import SCHEME

    chosen = tuple(dict.fromkeys(names))
    stored = tuple(name for name in chosen if name.startswith(SCHEME) or "@" in name)
    listed = tuple(name for name in chosen if name not in stored)
    folder = _check(listed, stored, origin=origin)
    for name in listed:
        _pull(name, folder=folder, accepted=accept_licence, stall_timeout=stall_timeout)
    if stored and origin is not None:
        _pull_stored(stored, origin=origin, stall_timeout=stall_timeout)


def _check(listed: tuple[str, ...], stored: tuple[str, ...], *, origin: str | None) -> Path | None:
    """Return the folder for models of the catalogue. Raises ConfigurationError for what cannot be meant."""
    from sightline.errors import ConfigurationError
    from sightline.graph.wording import suggest
    from sightline.redaction import redact
    from sightline_plugins.catalogue import entry_names

    if stored and origin is None:
        raise ConfigurationError(f"{stored[0]}: say which store has it: --from FOLDER, or --from s3://BUCKET/PREFIX")
    if stored and listed:
        raise ConfigurationError(
            f"{stored[0]} is a model of a store, and {listed[0]} one of the catalogue: give one kind at a time"
        )
    known = entry_names()
    for name in listed:
        if name not in known:
            near = suggest(name, known) or f"; known: {', '.join(known)}"
            of_store = "" if origin is None else f", or write store:{name} for a model of the store {redact(origin)}"
            raise ConfigurationError(f"there is no model {name!r} in the catalogue{near}{of_store}")
    if stored or origin is None:
        return None
    if not Path(origin).is_dir():
        raise ConfigurationError(f"--from {redact(origin)}: there is no such folder")
    return Path(origin)


def _pull_stored(names: tuple[str, ...], *, origin: str, stall_timeout: float) -> None:
    from sightline_plugins.store import Reference, Store
    from sightline_plugins.store.transfer import find, open_place
    from sightline_plugins.store.transfer import pull as pull_version

    references = [Reference.parse(name) for name in names]
    place, store = open_place(origin, timeout_seconds=stall_timeout), Store()
    for reference in references:
        record = find(reference, place)
        with transfer_bar(str(record.reference), record.bytes) as progress:
            stored, is_new = pull_version(record, place, store, progress=progress)
        if not is_new:
            click.echo(f"{record.reference} is here: {stored.model}")
            continue
        click.echo(f"{record.reference}: {stored.model} (licence: {record.licence or 'not stated'})")
        click.echo(f"  use it with `{record.usage}`")


def _pull(name: str, *, folder: Path | None, accepted: bool, stall_timeout: float) -> None:
    from sightline.graph.outputs import output_error
    from sightline_plugins.catalogue import find_entry, pulled
    from sightline_plugins.catalogue.storage import keep
    from sightline_plugins.store import Store

    entry = find_entry(name)
    with Store().downloading(name) as target:
        here = pulled(name)
        if here is not None:
            click.echo(f"{name} is here: {here}")
            return
        _ask(entry, accepted=accepted)
        try:
            with _progress(entry) as progress:
                file = _bring(entry, target, folder=folder, progress=progress, stall_timeout=stall_timeout)
            stored = keep(entry, file)
        except OSError as error:
            raise output_error(target, error, doing="write") from error
    click.echo(f"{name}: {stored.model} ({entry.licence})")
    click.echo(f"  use it with `{entry.task}: {{model: {name}}}`; `sightline models show {name}` says more")


def _bring(
    entry: Entry, target: Path, *, folder: Path | None, progress: Callable[[int], None], stall_timeout: float
) -> Path:
    from sightline_plugins.catalogue.download import Wanted, bring, bring_member

    file, archive = target / entry.model_file, entry.archive
    wanted = Wanted(entry.url, entry.sha256, entry.bytes, f"{entry.name}/{entry.model_file}")
    if archive is None:
        bring(wanted, file, folder=folder, progress=progress, stall_timeout=stall_timeout)
        return file
    packed = Wanted(entry.url, archive.sha256, archive.bytes, f"{entry.name}/{entry.url.rpartition('/')[2]}")
    bring_member(packed, archive.member, wanted, file, folder=folder, progress=progress, stall_timeout=stall_timeout)
    return file


def _ask(entry: Entry, *, accepted: bool) -> None:
    """Show the licence and ask for it, unless it was accepted. Raises ConfigurationError when it is not."""
    from sightline.errors import ConfigurationError
    from sightline_plugins.catalogue.storage import licence_text

    if accepted:
        return
    click.echo(licence_text(entry), err=True)
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"{entry.name}: its licence ({entry.licence}) has to be accepted: give --accept-licence"
        )
    if not click.confirm(f"Accept the licence of {entry.name} ({entry.licence})?", err=True):
        raise ConfigurationError(f"{entry.name}: its licence was not accepted, so nothing was downloaded")


@contextmanager
def _progress(entry: Entry) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of bytes that are there, and shows a bar on a terminal."""
    size = entry.bytes if entry.archive is None else entry.archive.bytes
    with click.progressbar(length=size, label=f"{entry.name} ({size / _MB:.1f} MB)", file=sys.stderr) as bar:
        yield lambda received: bar.update(received - bar.pos)
