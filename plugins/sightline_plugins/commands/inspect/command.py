"""`sightline inspect`: show how the results of one frame of a recorded run came about."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sightline.cli.written import overwrite_option

if TYPE_CHECKING:
    from sightline.runtime.inspection import FrameInspection
    from sightline.runtime.recording.file import Recording

_LOOK_SECONDS = 0.2


@click.command("inspect", short_help="Show how the results of one frame of a recorded run came about.")
@click.argument("recording", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--frame", "wanted", required=True, metavar="STREAM:N", help="Which frame, such as gate:812.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the images; STREAM-N beside the recording when not given.",
)
@overwrite_option
@click.option("--device", metavar="DEVICE", help="Run on auto, cpu, cuda or cuda:N instead of the recorded device.")
@click.option("--json", "as_json", is_flag=True, help="Print what is known as JSON, instead of a table.")
def command(
    recording: Path, wanted: str, output: Path | None, overwrite: bool, device: str | None, as_json: bool
) -> None:
    """Run the run in RECORDING again up to one frame, and write what each step made of it.

    Images: the frame; for each model the input of the network, and every box that it gave: green became an object,
    orange was suppressed by a better one, grey was below the confidence that is asked for; for every other step the
    objects behind it, with tracks. The same is printed, or goes to `inspection.json`.
    """
    from sightline.runtime.recording.file import Recording
    from sightline.server.inspections import plain_inspection
    from sightline_plugins.commands.inspect.images import write_images

    found = Recording.read(recording)
    stream, index = _parse(wanted, found)
    inspection = _inspected(found, stream, index, device=device)
    answer, images = plain_inspection(inspection)
    folder = output or recording.absolute().parent / f"{stream}-{index}"
    plain = answer.model_dump(mode="json", exclude={"id"})
    written = write_images(folder, plain, images, overwrite=overwrite)
    click.echo(json.dumps(plain, indent=2) if as_json else _text(plain))
    click.echo(f"written: {len(written)} files in {folder}", err=True)


def _parse(wanted: str, recording: Recording) -> tuple[str, int]:
    """Return stream and index. Raises ConfigurationError when the recording does not have that frame."""
    from sightline.errors import ConfigurationError

    stream, _, number = wanted.rpartition(":")
    if not stream or not number.isdecimal():
        raise ConfigurationError(f"--frame {wanted}: must be a stream and the number of a frame, such as gate:812")
    rows = recording.frames_of(recording.number_of(stream))
    if not any(row.index == int(number) for row in rows):
        raise ConfigurationError(
            f"--frame {wanted}: frame {number} of {stream!r} did not enter the steps; there are "
            f"{len(rows)} frames from {rows[0].index} to {rows[-1].index}"
            if rows
            else f"--frame {wanted}: no frame of {stream!r} was recorded"
        )
    return stream, int(number)


def _inspected(recording: Recording, stream: str, index: int, *, device: str | None) -> FrameInspection:
    """Run up to the frame, and return what the steps made of it. Raises what the run raises."""
    from sightline.cli.interrupts import interrupts
    from sightline.cli.progress import Progress
    from sightline.errors import ConfigurationError
    from sightline.pipeline import Pipeline
    from sightline.runtime.inspection import FrameInspection
    from sightline_plugins.commands.replay.replaying import description_of, order_of

    with tempfile.TemporaryDirectory(prefix="sightline-inspect-") as folder:
        described = description_of(recording, keeps_files=False, device=device, outputs=Path(folder))
        pipeline = Pipeline.from_description(described, outputs=folder)
        inspection = FrameInspection(pipeline.description, stream, index=index)
        progress = Progress(pipeline.status, deliveries=pipeline.deliveries, quiet=False)
        with interrupts(pipeline, say=progress.say, reload=lambda: None), progress:
            pipeline.start(order=order_of(recording), inspection=inspection)
            while not inspection.wait(_LOOK_SECONDS) and pipeline.is_running:
                pass
            pipeline.stop()
            pipeline.wait()
    if inspection.frame is None:
        raise ConfigurationError(f"{stream}:{index} did not come out of the recording: see `sightline replay`")
    return inspection


def _text(plain: dict[str, Any]) -> str:
    """Return what is known of a frame, step by step."""
    lines = [
        f"{plain['stream']}:{plain['frame']}  {plain['pts_ns'] / 1e9:.3f} s  {plain['size'][0]} x {plain['size'][1]}"
    ]
    for step in plain["steps"]:
        before, after = len(step["before"]), len(step["after"])
        lines.append(f"{step['id']}: {step['state']}{': ' + step['failure'] if step['failure'] else ''}")
        for target in step["targets"]:
            lines += _target_lines(target)
        lines.append(f"  objects {before} before, {after} after")
        lines += [f"  {_object_line(one)}" for one in step["after"]] if step["after"] != step["before"] else []
        lines += [f"  event {json.dumps(event)}" for event in step["events"]]
    return "\n".join(lines)


def _target_lines(target: dict[str, Any]) -> list[str]:
    whose = "the frame" if target["object"] is None else f"object {target['object']}"
    boxes = target["boxes"]
    lines = [f"  input of {whose}: {target['input'] or 'not kept'}{'; ' + target['note'] if target['note'] else ''}"]
    if boxes:
        kept = sum(one["kept"] for one in boxes)
        suppressed = sum(not one["survives"] for one in boxes)
        lines.append(f"  boxes {len(boxes)}: {kept} became objects, {suppressed} were suppressed by better ones")
    lines += [f"  {one['output']} {one['label']} {one['value']:.3f}" for one in target["scores"]]
    return lines


def _object_line(one: dict[str, Any]) -> str:
    track = "" if one["track_id"] is None else f" #{one['track_id']}"
    box = ", ".join(f"{value:.1f}" for value in one["box"])
    attributes = "".join(f" {name}={value}" for name, value in one["attributes"].items())
    return f"{one['label']}{track} {one['confidence']:.3f} [{box}]{attributes}"
