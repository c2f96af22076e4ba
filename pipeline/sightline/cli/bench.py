"""`sightline bench`: how fast a pipeline is, where the time goes, and how far it is from what the machine could do."""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING

import click

from sightline.cli.options import pipeline_options

if TYPE_CHECKING:
    from sightline.graph.source import SourceElement
    from sightline.graph.tree import PipelineDescription

_FAILED, _INTERRUPTED = 1, 130


@click.command("bench")
@pipeline_options
@click.option("--seconds", type=click.FloatRange(min=0.1), default=10.0, show_default=True, help="How long to measure.")
@click.option("--frames", type=click.IntRange(min=1), help="Measure over so many frames of each stream instead.")
def command(
    config: Path,
    sources: tuple[str, ...],
    overrides: tuple[str, ...],
    device: str | None,
    seconds: float,
    frames: int | None,
) -> int:
    """Measure how fast the pipeline in CONFIG is, and what holds it back.

    Files are read again and again and as fast as they are wanted; outputs with relative paths go to a folder that is
    deleted afterwards.
    """
    from sightline.cli.interrupts import interrupts
    from sightline.cli.progress import Progress
    from sightline.cli.summary import Measurement, measurement_text
    from sightline.config import load_description
    from sightline.errors import StreamError
    from sightline.graph.outputs import Outputs
    from sightline.pipeline import Pipeline

    with tempfile.TemporaryDirectory(prefix="sightline-bench-") as folder:
        root = Path(folder)
        loaded = load_description(config, sources=sources, overrides=overrides, device=device, outputs=Outputs(root))
        pipeline = Pipeline.from_description(endless(loaded), outputs=root)
        progress = Progress(pipeline.status, quiet=True)
        pipeline.on_message(progress.tell)
        timer = Timer(seconds, pipeline.stop)
        with progress, interrupts(pipeline, say=progress.say) as caught:
            pipeline.start(frames=frames)
            if caught.count:
                pipeline.stop()
            elif frames is None:
                timer.start()
            try:
                report = pipeline.wait()
            except StreamError:  # each stream's own failure was reported when it happened
                return _FAILED
            finally:
                timer.cancel()
    if caught.count:
        return _INTERRUPTED
    click.echo(measurement_text(Measurement.of(report.to_json()), title=str(config)))
    return _FAILED if report.failed_streams else 0


def endless(description: PipelineDescription, *, realtime: bool | None = False) -> PipelineDescription:
    """The pipeline with its files read again and again: as fast as they are wanted, at the speed of their timestamps
    with `realtime`, or as configured (None). Live sources stay as they are.
    """
    sources = {
        name: source if source.live else _looped(source, realtime=source.realtime if realtime is None else realtime)
        for name, source in description.sources.items()
    }
    return description.model_copy(update={"sources": sources})


def _looped(source: SourceElement, *, realtime: bool) -> SourceElement:
    fields = type(source).model_fields
    unending: dict[str, object] = {"loop": True} if "loop" in fields else {"frames": None} if "frames" in fields else {}
    return source.model_copy(update={"realtime": realtime, **unending})
