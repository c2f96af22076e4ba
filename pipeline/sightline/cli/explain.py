"""`sightline explain`: every value that a pipeline would run with, and where it comes from."""

from __future__ import annotations

from pathlib import Path

import click

from sightline.cli.options import pipeline_options

_LONGEST = 60


@click.command("explain")
@pipeline_options
@click.option("--given", is_flag=True, help="Leave out the defaults.")
@click.option("--json", "as_data", is_flag=True, help="Print a list of records: part, option, value, origin.")
def command(
    config: Path, sources: tuple[str, ...], overrides: tuple[str, ...], device: str | None, given: bool, as_data: bool
) -> None:
    """Print every value that the pipeline in CONFIG would run with, and where each comes from.

    Origins are the file with its line, the command line, the environment, the model and its card, or a default. `-` is
    an option without a value. Passwords and values of the environment are not shown.
    """
    import json

    from sightline.cli.text import columns, output_width
    from sightline.config.explain import DEFAULT, ExplainedPart, as_json, explain

    parts = explain(config, sources=sources, overrides=overrides, device=device)
    if given:
        parts = [
            ExplainedPart(part.title, tuple(value for value in part.values if not value.origin.startswith(DEFAULT)))
            for part in parts
        ]
    if as_data:
        click.echo(json.dumps(as_json(parts), indent=2, ensure_ascii=False))
        return
    width = output_width()
    texts = []
    for part in parts:
        rows = [(value.name, _short(value.value), value.origin) for value in part.values]
        texts.append("\n".join(filter(None, [part.title, columns(rows, indent="  ", width=width)])))
    click.echo("\n\n".join(texts))


def _short(value: str) -> str:
    """Cut a long value, so that the origins stay in sight; `--json` has all of it."""
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 4]} ..."
