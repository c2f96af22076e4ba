"""`sightline models`: commands about models."""

from __future__ import annotations

import click

from sightline_plugins.commands.models.add import add
from sightline_plugins.commands.models.listing import list_models
from sightline_plugins.commands.models.pull import pull
from sightline_plugins.commands.models.push import push
from sightline_plugins.commands.models.remove import remove
from sightline_plugins.commands.models.show import show
from sightline_plugins.commands.models.verify import verify


@click.group("models", short_help="Keep models by name and version, pull and push them, show what one is.")
def command() -> None:
    """Commands about models: the store of this machine, the catalogue, and files."""


for _one in (add, list_models, pull, push, remove, show, verify):
    command.add_command(_one)
