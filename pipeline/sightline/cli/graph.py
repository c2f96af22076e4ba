"""`sightline graph`: a pipeline as an image."""

from __future__ import annotations

from pathlib import Path

import click

from sightline.cli.options import pipeline_options


@click.command("graph")
@pipeline_options
@click.option(
    "--format",
    "language",
    type=click.Choice(["mermaid", "dot", "svg"]),
    default="mermaid",
    show_default=True,
    help="Mermaid and dot are texts for other programs; svg is an image.",
)
def command(
    config: Path, sources: tuple[str, ...], overrides: tuple[str, ...], device: str | None, language: str
) -> None:
    """Draw the pipeline in CONFIG, on standard output."""
    from sightline.config import load_description
    from sightline.graph.diagram import diagram_of, dot, mermaid, svg

    description = load_description(config, sources=sources, overrides=overrides, device=device)
    writers = {"mermaid": mermaid, "dot": dot, "svg": svg}
    click.echo(writers[language](diagram_of(description)))
