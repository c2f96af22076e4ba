"""`sightline models list`: the catalogue, and what of it is on this machine."""

from __future__ import annotations

import json

import click

_MB = 1e6


@click.command("list", short_help="List the models of the catalogue.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with classes, licences, figures and addresses.")
def list_models(as_json: bool) -> None:
    """List the models that may be used in products, for `model: NAME` after `sightline models pull NAME`.

    A figure is what this project's own tests measured; a model without one was not at hand, and its card follows the
    code of its authors.
    """
    from sightline.cli.text import columns, output_width
    from sightline_plugins.catalogue import entries, pulled

    if as_json:
        records = [
            {**entry.model_dump(mode="json"), "file": None if (file := pulled(name)) is None else str(file)}
            for name, entry in entries().items()
        ]
        click.echo(json.dumps(records, indent=2))
        return
    rows = [("name", "step", "MB", "licence", "here", "what for, and what was measured")]
    for name, entry in entries().items():
        measured = "; ".join(map(str, entry.measured)) or "not measured: the file was not at hand"
        here = "yes" if pulled(name) is not None else ""
        rows.append(
            (name, entry.task, f"{entry.bytes / _MB:.1f}", str(entry.licence), here, f"{entry.summary} ({measured})")
        )
    click.echo(columns(rows, width=output_width()))
    click.echo("\nsightline models pull NAME brings one to this machine.")
