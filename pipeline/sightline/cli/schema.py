"""`sightline schema`: the JSON Schema of the YAML file."""

from __future__ import annotations

import json

import click

from sightline.cli.options import debug_option


@click.command("schema")
@debug_option
def command() -> None:
    """Print the JSON Schema of the YAML file, with the options of everything installed.

    Editors complete and check with it: write it to a file, and put `# yaml-language-server: $schema=FILE` on the
    first line of the pipeline.
    """
    from sightline.config.schema import json_schema
    from sightline.graph.registry import Registry

    click.echo(json.dumps(json_schema(Registry()), indent=2))
