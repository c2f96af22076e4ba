"""`sightline tune`: choose how often a detector runs, by what that loses on a clip of the camera."""

from __future__ import annotations

import difflib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline.cli.options import pipeline_options
from sightline.cli.written import WrittenFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.graph import Message
    from sightline_plugins.commands.tune.reference import Loss
    from sightline_plugins.commands.tune.trials import Measured, Setting, Trial

_NO, _INTERRUPTED = 1, 130


class _Interrupted(Exception):
    """Somebody pressed Ctrl-C."""


@click.command("tune", short_help="Choose how often a detector runs, by what that loses on a clip of the camera.")
@pipeline_options
@click.option(
    "--clip",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="A recording of the camera: a minute or more in which happens what usually does.",
)
@click.option(
    "--truth",
    type=click.Path(path_type=Path, exists=True),
    help="Ground truth of the clip, as `sightline eval` reads it, to score against.",
)
@click.option("--stream", help="The stream that the clip stands for; the first one when not given.")
@click.option("--step", help="The detector to tune, where there are several: its id, such as detect-1.")
@click.option(
    "--lose",
    type=click.FloatRange(0, 100),
    default=1.0,
    show_default=True,
    help="Points of HOTA and of IDF1 that may be lost.",
)
@click.option("--frames", type=click.IntRange(min=50), help="Take only so many frames of the clip.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write CONFIG with the chosen setting here, in the same folder; may be CONFIG itself. "
    "When not given, the change is printed.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file when it is there and is not CONFIG.")
@click.option("-q", "--quiet", is_flag=True, help="Print the result only.")
def command(
    config: Path,
    sources: tuple[str, ...],
    overrides: tuple[str, ...],
    device: str | None,
    clip: Path,
    truth: Path | None,
    stream: str | None,
    step: str | None,
    lose: float,
    frames: int | None,
    output: Path | None,
    overwrite: bool,
    quiet: bool,
) -> int:
    """Find how seldom the detector of the pipeline in CONFIG may run, on a clip of its camera.

    The pipeline runs on the clip with every frame detected, then with intervals (`every: 4`) and with `every: auto`.
    Of each, a table has the share of detected frames, the CPU time a frame, points of HOTA and IDF1 (0 to 100) lost
    against every frame, and whether the counts of rules are the same. Chosen is the cheapest that loses no more than
    `--lose` and counts the same; the exit code is 1 where none is cheaper than every frame.

    Without `--truth`, all are scored against the tracks of every frame, smoothed in time. That overestimates what is
    lost two to four times, because the trembling of a detector counts as loss. What has effects outside (files,
    deliveries, recordings) is left out. CPU times are those of one run each: leave the machine alone meanwhile.
    """
    from sightline.config import ConfigurationFile, load_description
    from sightline.errors import ConfigurationError
    from sightline.graph.outputs import Outputs
    from sightline_plugins.commands.evaluate.annotations import read_annotations
    from sightline_plugins.commands.evaluate.scores import require_track_scoring
    from sightline_plugins.commands.tune.reference import Reference
    from sightline_plugins.commands.tune.trials import EVERY_FRAME, NO_FRAME, candidates, trial_of
    from sightline_plugins.infer.detect import Detect

    if output is not None and output.absolute().parent != config.absolute().parent:
        raise click.BadParameter(
            f"it must be in the folder of {config}, to which paths in it are relative.", param_hint="--output"
        )
    written = None
    if output is not None:
        reads = {clip: "the clip", **({} if truth is None else {truth: "the ground truth"})}
        written = WrittenFile("--output", output, overwrite=overwrite, reads=reads, is_edited=True, may_be=config)
        written.check()
    require_track_scoring()
    known = None if truth is None else read_annotations(truth, truth=True)

    def say(text: str) -> None:
        if not quiet:
            click.echo(text, err=True)

    with tempfile.TemporaryDirectory(prefix="sightline-tune-") as folder:
        root = Path(folder)
        file = ConfigurationFile(config, sources=sources, overrides=overrides, device=device, outputs=Outputs(root))
        described = file.read()
        names = list(described.sources)
        if stream is not None and stream not in names:
            raise ConfigurationError(f"--stream: there is no stream {stream!r}; streams: {', '.join(names) or 'none'}")
        own = stream or next(iter(names), "clip")
        shown = load_description(
            config, sources=(*sources, f"{own}={clip}"), overrides=overrides, device=device, outputs=Outputs(root)
        )
        trial = trial_of(described, stream=own, clip=shown.sources[own], step=step)
        tried = [EVERY_FRAME, *candidates(trial.detect), NO_FRAME]
        try:
            measured, told = [], set[str]()
            for number, setting in enumerate(tried, 1):
                name = "no frame detected" if setting is NO_FRAME else str(setting)
                say(f"{number}/{len(tried)}  {name}")
                measured.append(_run(trial, setting, outputs=root, frames=frames, told=None if quiet else told))
        except _Interrupted:
            return _INTERRUPTED
    every, *others, floor = measured
    if known is not None:
        known = known.select(known.frame < every.frames)
    reference = Reference(every.tracks, fps=every.fps, truth=known)
    if not reference.tracks:
        raise ConfigurationError(f"nothing was tracked for half a second in {clip}: take one in which something moves")
    losses = [reference.loss_of(one.tracks) for one in others]
    chosen = _chosen(every, others, losses, lose=lose)
    click.echo(_table(every, others, losses, chosen=chosen))
    click.echo(_floor_text(every, floor, objects=reference.tracks))
    if chosen is None:
        click.echo(f"No setting is cheaper than every frame, loses at most {lose:g} points and counts the same.")
        return _NO
    click.echo(f"{trial.detect_id}: {chosen.setting}, {every.milliseconds / chosen.milliseconds:.2f} times the streams")
    detect = described.element(trial.detect_id)
    assert isinstance(detect, Detect)
    text = file.text(described.with_element(trial.detect_id, chosen.setting.applied(detect)))
    if written is None:
        click.echo(_difference(config, text))
    else:
        written.write(text)
        say(f"written: {output}")
    return 0


def _run(trial: Trial, setting: Setting, *, outputs: Path, frames: int | None, told: set[str] | None) -> Measured:
    """Run the clip with a setting; `told` are messages that need not be repeated, None for silence.

    Raises _Interrupted, ConfigurationError or StreamError.
    """
    from sightline.cli.interrupts import interrupts
    from sightline.cli.progress import Progress
    from sightline_plugins.commands.tune.trials import Measured

    pipeline = trial.pipeline(setting, outputs=outputs)
    measured = Measured(setting)
    measured.watch(pipeline, trial)
    progress = Progress(pipeline.status, quiet=True)

    def tell(message: Message) -> None:
        if told is not None and message.text not in told:
            told.add(message.text)
            progress.tell(message)

    pipeline.on_message(tell)
    with progress, interrupts(pipeline, say=progress.say) as caught:
        pipeline.start(frames=frames)
        if caught.count:
            pipeline.stop()
        pipeline.wait()
    if caught.count:
        raise _Interrupted
    measured.finish(pipeline)
    return measured


def _chosen(every: Measured, others: Sequence[Measured], losses: Sequence[Loss], *, lose: float) -> Measured | None:
    """Return the cheapest run that keeps to what may be lost; None where every frame is cheapest."""
    kept = [
        one
        for one, loss in zip(others, losses, strict=True)
        if loss.worst <= lose and one.counts == every.counts and one.milliseconds < every.milliseconds
    ]
    return min(kept, key=lambda one: one.milliseconds, default=None)


def _floor_text(every: Measured, floor: Measured, *, objects: int) -> str:
    most = every.milliseconds / floor.milliseconds
    return (
        f"{every.frames} frames, {objects} objects. A frame without the network takes {floor.milliseconds:.2f} ms: "
        f"{most:.1f} times the streams per core is the most that can be reached."
    )


def _difference(config: Path, text: str) -> str:
    """Return what changes in a file, as a unified diff."""
    before = config.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    lines = difflib.unified_diff(before, text.splitlines(keepends=True), str(config), f"{config} (tuned)")
    return "".join(lines).rstrip("\n")


def _table(every: Measured, others: Sequence[Measured], losses: Sequence[Loss], *, chosen: Measured | None) -> str:
    from sightline.cli.text import columns

    rows: list[tuple[str, ...]] = [
        ("setting", "detected", "CPU ms", "streams per core", "HOTA lost", "IDF1 lost", "counts", ""),
        (str(every.setting), f"{every.share:.0%}", f"{every.milliseconds:.2f}", "1.00", "", "", "", ""),
    ]
    for one, loss in zip(others, losses, strict=True):
        counts = "" if not every.counts else "the same" if one.counts == every.counts else "others"
        rows.append(
            (
                str(one.setting),
                f"{one.share:.0%}",
                f"{one.milliseconds:.2f}",
                f"{every.milliseconds / one.milliseconds:.2f}",
                f"{loss.hota:.1f}",
                f"{loss.idf1:.1f}",
                counts,
                "chosen" if one is chosen else "",
            )
        )
    return columns(rows)
