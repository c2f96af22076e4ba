"""`sightline models pull`: bring models of the catalogue to this machine."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline.cli.options import debug_option

if TYPE_CHECKING:
    from sightline_plugins.catalogue import Entry

_MB = 1e6


def _names_that_begin(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return what a shell may complete."""
    del ctx, param
    from sightline_plugins.catalogue import entry_names

    return [name for name in entry_names() if name.startswith(incomplete)]


@click.command("pull", short_help="Bring models of the catalogue to this machine.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=_names_that_begin)
@click.option(
    "--from",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder that has the files, for machines without a network.",
)
@click.option("--accept-licence", is_flag=True, help="Accept the licences without being asked.")
@click.option(
    "--stall-timeout",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Take a server that sends nothing for this long for gone.",
)
@debug_option
def pull(names: tuple[str, ...], folder: Path | None, accept_licence: bool, stall_timeout: float) -> None:
    """Bring models of the catalogue into the store: the file, its card, its labels and its licence.

    The file is checked by size and SHA-256. A download that broke off goes on where it ended. Proxies are those of the
    environment (HTTPS_PROXY); SIGHTLINE_MODELS_MIRROR names a mirror, a URL or a folder that has NAME/NAME.onnx, and
    SIGHTLINE_MODELS the folder of the store. The licence is asked for once.
    """
    from sightline.errors import ConfigurationError
    from sightline.graph.wording import suggest
    from sightline_plugins.catalogue import entry_names, find_entry

    known = entry_names()
    for name in names:
        if name not in known:
            near = suggest(name, known) or f"; known: {', '.join(known)}"
            raise ConfigurationError(f"there is no model {name!r} in the catalogue{near}")
    for name in dict.fromkeys(names):
        _pull(find_entry(name), folder=folder, accepted=accept_licence, stall_timeout=stall_timeout)


def _pull(entry: Entry, *, folder: Path | None, accepted: bool, stall_timeout: float) -> None:
    from sightline.graph.outputs import output_error
    from sightline_plugins.catalogue import pulled
    from sightline_plugins.catalogue.storage import download_folder, keep

    target = download_folder(entry.name)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with _locked(target / ".lock"):
            here = pulled(entry.name)
            if here is None:
                _ask(entry, accepted=accepted)
                with _progress(entry) as progress:
                    file = _bring(entry, target, folder=folder, progress=progress, stall_timeout=stall_timeout)
                stored = keep(entry, file)
    except OSError as error:
        raise output_error(target, error, doing="write") from error
    if here is not None:
        click.echo(f"{entry.name} is here: {here}")
        return
    click.echo(f"{entry.name}: {stored.model} ({entry.licence})")
    click.echo(f"  use it with `{entry.task}: {{model: {entry.name}}}`; `sightline models show {entry.name}` says more")


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
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, so that of two processes that pull the same model the second finds it there."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _progress(entry: Entry) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of bytes that are there, and shows a bar on a terminal."""
    size = entry.bytes if entry.archive is None else entry.archive.bytes
    with click.progressbar(length=size, label=f"{entry.name} ({size / _MB:.1f} MB)", file=sys.stderr) as bar:
        yield lambda received: bar.update(received - bar.pos)
