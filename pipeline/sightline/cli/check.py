"""`sightline check`: every mistake of a pipeline at once, without running it."""

from __future__ import annotations

from pathlib import Path

import click

from sightline.cli.options import pipeline_options

_MANY = 64
"""Above so many files at once, their decoders take gigabytes of memory."""


@click.command("check")
@pipeline_options
def command(config: Path, sources: tuple[str, ...], overrides: tuple[str, ...], device: str | None) -> None:
    """Say everything that is wrong with the pipeline in CONFIG, without running it.

    Every mistake is one line: file:line:column: key path: what is wrong, what is allowed. The exit code is 2 when there
    is one.
    """
    from sightline.config import load_description
    from sightline.devices import choose_device
    from sightline.graph.advice import advice_of

    description = load_description(config, sources=sources, overrides=overrides, device=device)
    if (at_once := sum(not (source.live or source.takes_turns) for source in description.sources.values())) > _MANY:
        click.echo(
            f"warning: {at_once} files are read at once, each with its own decoder; "
            "`in_turn: true` reads the videos of a folder or glob one after another",
            err=True,
        )
    for text in advice_of(description):
        click.echo(f"note: {text}", err=True)
    streams, steps = len(description.sources), sum(1 for _ in description.elements())
    click.echo(
        f"{config}: {streams} {'stream' if streams == 1 else 'streams'}, {steps} {'step' if steps == 1 else 'steps'}, "
        f"device {choose_device(description.device)}: no mistakes"
    )
