"""`sightline replay`: run a recorded run again, and compare what comes out."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from sightline.cli.written import overwrite_option

_DIFFERENT, _INTERRUPTED = 1, 130
_MOST_TOLD = 5


@click.command("replay", short_help="Run a recorded run again, and compare what comes out.")
@click.argument("recording", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--output-root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the files of the run (JSON lines, tables, video) below this folder; none when not given.",
)
@overwrite_option
@click.option("--device", metavar="DEVICE", help="Run on auto, cpu, cuda or cuda:N instead of the recorded device.")
@click.option("-q", "--quiet", is_flag=True, help="Print the result only.")
def command(recording: Path, output_root: Path | None, overwrite: bool, device: str | None, quiet: bool) -> int:
    """Run the run in RECORDING again, frame by frame, and compare what comes out with what came out then.

    RECORDING is a file of `sightline run CONFIG --record run.slr`: encoded images, batches, configuration, versions, a
    digest of each result. The same frames go through the same steps in the same batches. Nothing is delivered,
    published or connected to. On the same machine and version the result is the same to the bit; else the versions and
    files that differ are listed, and the first frames that do. `sightline inspect` shows how one came about. The exit
    code is 1 when a result differs.
    """
    from sightline.cli.interrupts import interrupts
    from sightline.cli.progress import Progress
    from sightline.errors import StreamError
    from sightline.pipeline import Pipeline
    from sightline.runtime.recording.file import Recording
    from sightline.runtime.recording.head import differences, versions
    from sightline_plugins.commands.replay.replaying import Comparison, description_of, order_of

    found = Recording.read(recording)
    with ExitStack() as stack:
        root = output_root or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sightline-replay-")))
        described = description_of(
            found, keeps_files=output_root is not None, overwrite=overwrite, device=device, outputs=root
        )
        pipeline = Pipeline.from_description(described, outputs=root)
        comparison = Comparison(found)
        comparison.watch(pipeline)
        progress = Progress(pipeline.status, deliveries=pipeline.deliveries, quiet=quiet)
        pipeline.on_message(progress.tell)
        caught = stack.enter_context(interrupts(pipeline, say=progress.say, reload=lambda: None))
        try:
            with progress:
                pipeline.start(order=order_of(found))
                pipeline.wait()
        except StreamError as error:
            click.echo(f"error: {error}", err=True)
            return _DIFFERENT
    for line in _told(found.notes, whole=found.is_whole):
        click.echo(line)
    is_equal = not comparison.different and not comparison.missing
    for line in () if is_equal and quiet else differences(found.head, versions()):
        click.echo(f"other: {line}")
    streams = "1 stream" if len(found.streams) == 1 else f"{len(found.streams)} streams"
    summary = f"replayed {comparison.frames} frames of {streams}"
    if caught.count:
        click.echo(f"{summary}; interrupted")
        return _INTERRUPTED
    if comparison.unknown:
        click.echo(f"without a recorded result: {comparison.unknown} frames")
    if is_equal:
        click.echo(f"{summary}: equal to what was recorded, to the bit")
        return 0
    if comparison.missing:
        click.echo(f"missing: {comparison.missing} frames did not come out again")
    named = [f"{stream}:{index}" for stream, index in comparison.different[:_MOST_TOLD]]
    more = len(comparison.different) - len(named)
    if named:
        click.echo(f"different: {', '.join(named)}{f' and {more} more' if more else ''}")
        click.echo(f"see how it came about: sightline inspect {recording} --frame {named[0]}")
    click.echo(f"{summary}: {len(comparison.different)} of them are different")
    return _DIFFERENT


def _told(notes: tuple[str, ...], *, whole: bool) -> list[str]:
    """Return what keeps a replay from being equal."""
    told = [f"note: the run was not left alone: {note}; a replay does not do that again" for note in notes]
    return told if whole else [*told, "note: the recording was cut off: it is replayed as far as it goes"]
