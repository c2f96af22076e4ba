"""What the commands about the store share: its folder, and the names that a shell completes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sightline_plugins.store import Store

_MB = 1e6

store_option = click.option(
    "--store",
    "store_folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder of the store. Default: SIGHTLINE_MODELS, else ~/.local/share/sightline/models.",
)


def store_of(folder: Path | None) -> Store:
    """Return the store of `--store`."""
    from sightline_plugins.store import Store

    return Store(folder)


def stored_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names and versions that a shell may complete."""
    del param
    store = store_of(ctx.params.get("store_folder"))
    plain = incomplete.removeprefix("store:")
    names = [f"{name}@{version}" for name in store.names() for version in store.versions(name)]
    return [name for name in (*store.names(), *names) if name.startswith(plain)]


@contextmanager
def transfer_bar(name: str, size: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of bytes that have come since the last call, and shows a bar on a
    terminal.
    """
    with click.progressbar(length=size, label=f"{name} ({size / _MB:.1f} MB)", file=sys.stderr) as bar:
        yield bar.update
