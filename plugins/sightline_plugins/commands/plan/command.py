"""`sightline plan`: how many streams fit on this machine, and how many machines a fleet needs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click

from sightline.cli.options import pipeline_options

_DOES_NOT_FIT, _INTERRUPTED = 1, 130


@click.command("plan", short_help="Say how many streams fit on this machine, and how many machines a fleet needs.")
@pipeline_options
@click.option(
    "--seconds",
    type=click.FloatRange(min=2),
    default=60.0,
    show_default=True,
    help="How long to measure, without the starts.",
)
@click.option("--fps", type=click.FloatRange(min=0, min_open=True), help="Analyse no more frames a second (max_fps).")
@click.option(
    "--headroom",
    type=click.FloatRange(0, 0.9),
    default=0.1,
    show_default=True,
    help="Share of processor and memory that stays free.",
)
@click.option(
    "--fleet",
    "fleet_path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="YAML with machines and a number of streams: how many machines are needed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print the result only.")
def command(
    config: Path,
    sources: tuple[str, ...],
    overrides: tuple[str, ...],
    device: str | None,
    seconds: float,
    fps: float | None,
    headroom: float,
    fleet_path: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Measure what the pipeline in CONFIG takes on this machine, and predict how many streams like its own fit.

    It runs with each stream once, with the decoders alone, with the steps alone and with all of it, as fast as the
    machine can, with copies of its streams until the machine is busy. From CPU time, from what share of the cores a
    pipeline can use, and from memory comes how many streams fit at their own frame rates, and what runs out first. Then
    so many streams run at their own rates, to see whether they do fit; the exit code is 1 if not.

    Sources are files: give recordings of cameras with --source. What has effects outside (deliveries, telemetry) is
    left out, and outputs go to a folder that is deleted. The pipeline runs in one process. Leave the machine alone
    meanwhile.
    """
    from sightline.config import load_description
    from sightline.config.load import read_document
    from sightline.graph.outputs import Outputs
    from sightline_plugins.commands.plan.copies import limited, plain
    from sightline_plugins.commands.plan.fleet import Fleet
    from sightline_plugins.commands.plan.measured import Interrupted
    from sightline_plugins.commands.plan.text import fleet_text, plan_text
    from sightline_plugins.commands.plan.trials import Trials

    fleet = None if fleet_path is None else read_document(Fleet, fleet_path)

    def say(text: str) -> None:
        if not quiet:
            click.echo(text, err=True)

    with tempfile.TemporaryDirectory(prefix="sightline-plan-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        loaded = load_description(config, sources=sources, overrides=overrides, device=device, outputs=Outputs(root))
        trials = Trials(limited(plain(loaded), fps=fps), seconds=seconds, outputs=root, say=say)
        try:
            plan = trials.plan(headroom=headroom)
        except Interrupted:
            return _INTERRUPTED
    if as_json:
        click.echo(json.dumps(plan.to_json(fleet), indent=2))
    else:
        click.echo(plan_text(plan, title=str(config)))
        if fleet is not None:
            click.echo(fleet_text(fleet, plan))
    return 0 if plan.fits else _DOES_NOT_FIT
