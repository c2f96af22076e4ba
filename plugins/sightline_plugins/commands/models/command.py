"""`sightline models`: commands about models."""

from __future__ import annotations

import click

from sightline_plugins.commands.models.listing import list_models
from sightline_plugins.commands.models.pull import pull
from sightline_plugins.commands.models.show import show


@click.group("models", short_help="List and pull models of the catalogue; show what a model is and finds.")
def command() -> None:
    """Commands about models: the catalogue, and files."""


command.add_command(list_models)
command.add_command(pull)
command.add_command(show)
