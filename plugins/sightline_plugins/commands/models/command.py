"""`sightline models`: commands about model files."""

from __future__ import annotations

import click

from sightline_plugins.commands.models.show import show


@click.group("models", short_help="Show what a model is, how it would be run, and what it finds.")
def command() -> None:
    """Commands about model files."""


command.add_command(show)
