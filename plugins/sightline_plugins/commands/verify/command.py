"""`sightline verify`: compare a model in the pipeline with the same model in a notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sightline_plugins.commands.model_step import model_step, setting_option, task_option

if TYPE_CHECKING:
    from sightline_plugins.commands.evaluate.annotations import Annotations
    from sightline_plugins.commands.verify.comparison import BoxSettings, Comparison, Stages
    from sightline_plugins.infer.options import ModelElement
    from sightline_plugins.infer.plan import ModelPlan

AP_LIMIT = 0.003


@click.command("verify", short_help="Compare a model in the pipeline with the same model in a notebook.")
@click.argument("model")
@task_option
@click.option("--frames", help="Clip, folder or glob of images; generated images by default.")
@click.option("--count", type=click.IntRange(min=1), default=32, show_default=True, help="Maximum number of images.")
@click.option("--truth", type=click.Path(exists=True, path_type=Path), help="COCO JSON of the images in --frames.")
@setting_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context,
    model: str,
    task: str | None,
    frames: str | None,
    count: int,
    truth: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run MODEL stage by stage beside a plain reference, and name the first stage that differs.

    The reference works as in a notebook: whole images, OpenCV's resize, NumPy, ONNX Runtime on the unchanged file. With
    --truth both are scored by COCO's average precision, which reveals wrong channels, scales and labels that both
    share. The exit code is 1 when a stage differs by more than its limit.
    """
    from sightline.errors import ConfigurationError
    from sightline_plugins.commands.evaluate.scores import require_scoring
    from sightline_plugins.commands.verify.comparison import compare
    from sightline_plugins.commands.verify.images import generated_images, images_of

    if truth is not None and frames is None:
        raise ConfigurationError("--truth needs the images that it describes: give --frames")
    if truth is not None:
        require_scoring()
    element, _ = model_step(model, task, settings)
    plan, boxes = plan_of(element)
    images = generated_images(count) if frames is None else images_of(frames, count=count)
    compared = compare(element, plan, images, boxes=boxes)
    scores = _scores(compared, truth) if truth is not None else {}
    differs = compared.stages.first_difference
    lost = abs(scores.get("ap", 0.0) - scores.get("plain_ap", 0.0)) > AP_LIMIT
    if as_json:
        click.echo(json.dumps(_as_json(compared.stages, scores), indent=2))
    else:
        click.echo(_as_text(element, plan, compared.stages, scores, generated=frames is None))
    context.exit(1 if differs is not None or lost else 0)


def plan_of(element: ModelElement) -> tuple[ModelPlan, BoxSettings | None]:
    """Return the plan of a step, and the box settings of a detector. Raises ModelError with every mistake."""
    from sightline.errors import ModelError
    from sightline_plugins.commands.verify.comparison import BoxSettings
    from sightline_plugins.infer.detections import detection_rules
    from sightline_plugins.infer.options import DetectionElement

    plan, problems = element.plan()
    if plan is None:
        hint = "; it was taken for a detector: set --task if it is something else" if element.name == "detect" else ""
        raise ModelError("; ".join(problem.message for problem in problems) + hint)
    if not isinstance(element, DetectionElement):
        return plan, None
    rules = detection_rules(element, plan)
    return plan, BoxSettings(rules.nms, rules.confidence)


def _scores(compared: Comparison, truth: Path) -> dict[str, float]:
    from sightline.errors import ConfigurationError
    from sightline_plugins.commands.evaluate.annotations import read_annotations
    from sightline_plugins.commands.evaluate.scores import score_detections

    if compared.ours is None or compared.plain is None:
        raise ConfigurationError("--truth scores boxes, which this model does not find")
    known = read_annotations(truth, truth=True)

    def score(found: Annotations) -> tuple[float, float]:
        scores = score_detections(found, truth=known)
        return scores.ap, scores.ap50

    (ap, ap50), (plain_ap, plain_ap50) = score(compared.ours), score(compared.plain)
    return {"ap": ap, "ap50": ap50, "plain_ap": plain_ap, "plain_ap50": plain_ap50}


def _as_json(stages: Stages, scores: dict[str, float]) -> dict[str, Any]:
    differs = stages.first_difference
    return {
        "stages": {
            stage.name: {"difference": stage.difference, "limit": stage.limit, "within": stage.is_within}
            for stage in stages
        },
        "differs": None if differs is None else differs.name,
        "scores": scores,
    }


def _as_text(
    element: ModelElement, plan: ModelPlan, stages: Stages, scores: dict[str, float], *, generated: bool
) -> str:
    from sightline_plugins.commands.verify.comparison import MEANING

    head = "-" if plan.head is None else plan.head.name
    lines = [f"{element.model}: {element.name}, head {head}, {_input(plan)}"]
    for stage in stages:
        mark = "ok     " if stage.is_within else "DIFFERS"
        lines.append(
            f"  {mark} {stage.name:10} {stage.difference:10.5f}  at most {stage.limit:g}   {MEANING[stage.name]}"
        )
    if scores:
        lines.append(
            f"  COCO AP {scores['ap']:.4f} (AP50 {scores['ap50']:.4f}), "
            f"plain recipe {scores['plain_ap']:.4f} (AP50 {scores['plain_ap50']:.4f})"
        )
    differs = stages.first_difference
    lines.append(
        "every stage agrees with the plain reference"
        if differs is None
        else f"the first stage that differs is {differs.name!r}"
    )
    if differs is not None and differs.name == "answers":
        lines.append(
            "each stage alone agrees, but the model reacts to single levels of its input: convert: image gives it "
            "the exact pixels that OpenCV gives"
        )
    if generated:
        lines.append("on generated images, which show few objects: try yours with --frames")
    return "\n".join(lines)


def _input(plan: ModelPlan) -> str:
    said = plan.preprocessing
    size = "as large as the image" if said.size_wh is None else f"{said.size_wh[0]}x{said.size_wh[1]}"
    return f"input {size}, {said.fit}, {said.resize}, {said.color}, mean {said.mean}, scale {said.scale}"
