"""`sightline token`: who may ask the server of a run."""

from __future__ import annotations

import re
import time

import click

from sightline.cli.options import debug_option
from sightline.cli.text import columns

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


@click.group("token")
def command() -> None:
    """Make, list or remove the tokens of those who may watch and steer what `--listen` serves.

    They are kept as hashes in ~/.config/sightline/tokens.json (SIGHTLINE_TOKENS names another file); a change counts at
    once for what runs. A `viewer` looks, an `operator` steers what runs (records, pauses, changes zones), an `admin`
    changes sources and configuration.
    """


@command.command("add")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator", "admin"]),
    default="viewer",
    show_default=True,
    help="What it may do.",
)
@debug_option
def add(name: str, role: str) -> None:
    """Make a token for NAME and print it, this once."""
    from sightline.server.credentials import Role, TokenFile

    if not _NAME.fullmatch(name):
        raise click.BadParameter("a name has letters, digits, dots, dashes and underscores.", param_hint="NAME")
    click.echo(TokenFile().add(name, Role(role)))


@command.command("list")
@debug_option
def show() -> None:
    """List the tokens: for whom, and since when."""
    from sightline.server.credentials import TokenFile

    rows = [
        (one.name, str(one.role), time.strftime("%Y-%m-%d %H:%M", time.localtime(one.made_at)))
        for one in TokenFile().entries()
    ]
    if rows:
        click.echo(columns([("name", "role", "made"), *rows]))
    else:
        click.echo("there are no tokens yet: `sightline token add NAME` makes one", err=True)


@command.command("remove")
@click.argument("name")
@debug_option
def remove(name: str) -> None:
    """Refuse the token of NAME from now on; its sessions end, too."""
    from sightline.server.credentials import TokenFile

    TokenFile().remove(name)
