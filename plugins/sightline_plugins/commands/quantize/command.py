"""`sightline quantize`: make a model that computes in 8 bits, and report its accuracy and speed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from sightline_plugins.commands.model_step import setting_option, task_option

if TYPE_CHECKING:
    from sightline_plugins.commands.quantize.quantizer import Method
    from sightline_plugins.commands.quantize.report import Report

_CLIPS = "A clip, folder or glob of images"


@click.command("quantize", short_help="Make a model that computes in 8 bits; what it loses, what it gains.")
@click.argument("model")
@click.option("--frames", multiple=True, required=True, help=f"{_CLIPS} to calibrate on; may be repeated.")
@click.option("--judge", multiple=True, help=f"{_CLIPS} to judge by; other images of --frames when not given.")
@click.option(
    "--truth",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="What is true in what is judged, one file for each clip in order: MOT text, KITTI labels, JSON lines, COCO.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Images to calibrate on, spread evenly; four times as many are judged by.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0, max=100),
    help="Points (of 100) that may be lost: 1 of AP against --truth; without, 2, as every difference counts as a loss.",
)
@click.option("--force", is_flag=True, help="Write the file even when it lost more than its budget.")
@click.option(
    "--method",
    type=click.Choice(["minmax", "entropy", "percentile"]),
    default="minmax",
    show_default=True,
    help="How the range of each tensor is derived from what calibration saw.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="MODEL.int8.onnx when not given.")
@task_option
@setting_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context,
    model: str,
    frames: tuple[str, ...],
    judge: tuple[str, ...],
    truth: tuple[Path, ...],
    samples: int,
    budget: float | None,
    force: bool,
    method: str,
    output: Path | None,
    task: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Calibrate MODEL on real images and write it with 8-bit weights and activations, as MODEL.int8.onnx.

    Images go through the step's own pre-processing: what the model card and --set say. The file holds explicit
    QuantizeLinear and DequantizeLinear, which OpenVINO, ONNX Runtime and TensorRT take alike; the model card of MODEL
    holds for it, too. A step uses it with precision: int8, or with precision: auto where it is faster.

    It is judged by other images than it was calibrated on: boxes by COCO's average precision against --truth, or
    else against what MODEL itself finds; classes, texts and vectors by how often they agree. Sensitive layers are left
    in float32 where that is needed. A file that lost more than --budget is not written, and the exit code is 1, unless
    --force is given. The report lies beside the file, as MODEL.int8.json.

    A model that is run on objects of other steps wants images of such objects: a folder that `snapshots` wrote.
    """
    from sightline_plugins.commands.quantize.options import quantize_request
    from sightline_plugins.commands.quantize.report import check_output, write
    from sightline_plugins.commands.quantize.run import run

    request = quantize_request(
        model,
        output=output,
        task=task,
        settings=settings,
        frames=frames,
        judge=judge,
        truth=truth,
        count=samples,
        method=cast("Method", method),
        budget_points=budget,
    )
    check_output(request.output, model=request.model)
    quantized, report = run(request, progress=lambda text: click.echo(text, err=True))
    written = report.is_within_budget or force
    if written:
        write(quantized, report)
    click.echo(json.dumps(report.as_json(), indent=2) if as_json else report.as_text())
    click.echo(_ending(report, written=written), err=not written or as_json)
    context.exit(0 if written else 1)


def _ending(report: Report, *, written: bool) -> str:
    if not written:
        lost = f"{report.kept.worst.lost_points:.2f} points of {report.kept.worst.measure}"
        return (
            f"error: it lost {lost}, more than the budget of {report.request.budget_points:g}: nothing is written. "
            "Calibrate on more images like those that it will see (--frames, --samples), try --method percentile, or "
            "write it all the same with --force"
        )
    output = report.request.output
    return f"written: {output}, {output.with_suffix('.json')}"
