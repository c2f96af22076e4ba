"""`sightline soak`: run a pipeline for hours, and report what grew."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline.cli.options import pipeline_options
from sightline.cli.text import columns
from sightline.cli.written import WrittenFile, files_read, overwrite_option
from sightline.errors import ConfigurationError

if TYPE_CHECKING:
    from sightline_plugins.commands.soak.run import Soaked
    from sightline_plugins.commands.soak.samples import Sample

_GREW, _INTERRUPTED = 1, 130
_FILE = click.Path(path_type=Path, dir_okay=False, writable=True)


@click.command("soak", short_help="Run a pipeline for hours and report what grew: memory, threads, files, latency.")
@pipeline_options
@click.option("--hours", type=click.FloatRange(0, min_open=True), required=True, help="How long; 0.05 is 3 minutes.")
@click.option("--faults", is_flag=True, help="Show files as cameras that fail again and again.")
@click.option(
    "--every", type=click.FloatRange(0.5), default=20.0, show_default=True, help="Seconds from one fault to the next."
)
@click.option("--seed", default=0, show_default=True, help="Which faults: the same seed gives the same.")
@click.option("--report", "report_path", type=_FILE, help="Write samples, slopes and the run report as JSON.")
@overwrite_option
@click.option("-q", "--quiet", is_flag=True, help="Print the result only.")
def command(
    config: Path,
    sources: tuple[str, ...],
    overrides: tuple[str, ...],
    device: str | None,
    hours: float,
    faults: bool,
    every: float,
    seed: int,
    report_path: Path | None,
    overwrite: bool,
    quiet: bool,
) -> int:
    """Run the pipeline in CONFIG for hours, and report what grew: memory, threads, open files, latency.

    A sample is taken every minute, more often in runs of less than an hour. The first quarter (1 to 15 minutes) is for
    warming up. The slope is the median of the slopes of all pairs of samples (Theil and Sen), so that a busy moment
    does not count. Files are read again and again; with --faults they are shown by cameras (`sightline camera`)
    that are killed, stall, lose packets and more, one at a time. Outputs with relative paths go to a folder that is
    deleted afterwards. The exit code is 1 when a value grew, a step or stream failed, or a frame is not accounted
    for.
    """
    from sightline.cli.bench import endless
    from sightline.cli.interrupts import interrupts
    from sightline.config import load_description
    from sightline.graph.outputs import Outputs
    from sightline.pipeline import Pipeline
    from sightline_plugins.commands.soak.run import shown_by_cameras, soak
    from sightline_plugins.commands.soak.samples import can_sample

    def say(text: str) -> None:
        click.echo(text, err=True)

    def report(text: str) -> None:
        if not quiet:
            say(text)

    if not can_sample():
        raise ConfigurationError("soak reads what a process holds from /proc, which this system does not have")
    with (
        tempfile.TemporaryDirectory(prefix="sightline-soak-", ignore_cleanup_errors=True) as folder,
        ExitStack() as stack,
    ):
        root = Path(folder)
        loaded = load_description(config, sources=sources, overrides=overrides, device=device, outputs=Outputs(root))
        written = None
        if report_path is not None:
            reads = files_read(loaded, config=config)
            written = WrittenFile("--report", report_path, overwrite=overwrite, reads=reads)
            written.check()
        if faults:
            cameras = shown_by_cameras(loaded, every_seconds=every, seed=seed, say=report)
            description = stack.enter_context(cameras)
        else:
            description = endless(loaded, realtime=None)
        pipeline = Pipeline.from_description(description, outputs=root)
        caught = stack.enter_context(interrupts(pipeline, say=say))
        soaked = soak(
            pipeline,
            seconds=hours * 3600,
            is_over=lambda: bool(caught.count),
            sampled=lambda sample: report(_line(sample)),
        )
    click.echo(_text(soaked, title=str(config)))
    if written is not None:
        written.write(json.dumps(soaked.to_json(), indent=2) + "\n")
    return _INTERRUPTED if caught.count else _GREW if soaked.wrong else 0


def _line(sample: Sample) -> str:
    latency = "no frames" if sample.latency_p95_ms is None else f"p95 {sample.latency_p95_ms:.1f} ms"
    return (
        f"{sample.hours * 60:6.2f} min  {sample.memory_mib:7.1f} MiB  {sample.threads} threads  {sample.files} files  "
        f"{sample.frames} frames  {sample.dropped} dropped  {latency}"
    )


def _text(soaked: Soaked, *, title: str) -> str:
    """The result as a table."""
    rows: list[tuple[str, ...]] = [("", "median", "slope an hour", "growth", "allowed", "")]
    for one in soaked.judged:
        figures = (f"{value:.3g} {one.unit}" for value in (one.median, one.slope_an_hour, one.growth, one.allowed))
        rows.append((one.what, *figures, "GREW" if one.grew else "flat"))
    hours = soaked.samples[-1].hours if soaked.samples else 0.0
    frames = 0 if soaked.report is None else soaked.report.frames
    head = f"{title}: {hours:.3g} hours, {frames} frames, {len(soaked.samples)} samples"
    table = columns(rows, indent="  ") if soaked.judged else ""
    end = [f"wrong: {line}" for line in soaked.wrong] or ["nothing grew"]
    return "\n".join(line for line in (head, table, *end) if line)
