"""`sightline verify`: shows that a model gives in the pipeline what it gives in a notebook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sightline_plugins.commands.evaluate.annotations import Annotations
    from sightline_plugins.commands.verify.comparison import BoxSettings, Comparison, Stages
    from sightline_plugins.commands.verify.images import ImagePair
    from sightline_plugins.infer.options import ModelElement
    from sightline_plugins.infer.plan import ModelPlan

TASKS = ("detect", "classify", "segment", "pose", "embed", "read")
_OPTION_DEPTH = len(("pipeline", 0, "detect"))
"""Where the option's own name begins in the key path of a step by itself."""
AP_LIMIT = 0.003


@click.command("verify", short_help="Show that a model gives here what it gives in a notebook.")
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--task", type=click.Choice(TASKS), help="What the model is for; from its card or file when not given.")
@click.option("--frames", help="Clip, folder or glob of images to try it on; made images when not given.")
@click.option("--count", type=click.IntRange(min=1), default=32, show_default=True, help="Images at most.")
@click.option("--truth", type=click.Path(exists=True, path_type=Path), help="COCO JSON of the images in --frames.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="An option of the step, such as head=yolox."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context,
    model: Path,
    task: str | None,
    frames: str | None,
    count: int,
    truth: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run MODEL stage by stage beside a plain reference, and name the first stage that departs.

    The reference works as in a notebook: whole images, OpenCV's resize, NumPy, ONNX Runtime on the file as it is.
    With --truth both ways are scored by COCO's average precision, which tells of wrong channels, scales and labels that
    both ways share. The exit code is 1 when a stage departs by more than is tolerated.
    """
    from sightline.errors import ConfigurationError
    from sightline_plugins.commands.evaluate.scores import require_scoring
    from sightline_plugins.commands.verify.comparison import compare

    if truth is not None and frames is None:
        raise ConfigurationError("--truth needs the images that it describes: give --frames")
    if truth is not None:
        require_scoring()
    element = element_of(model, task, settings)
    plan, boxes = plan_of(element)
    compared = compare(element, plan, _images(frames, count), boxes=boxes)
    scores = _scores(compared, truth) if truth is not None else {}
    departs = compared.stages.first_departure
    lost = abs(scores.get("ap", 0.0) - scores.get("plain_ap", 0.0)) > AP_LIMIT
    if as_json:
        click.echo(json.dumps(_as_json(compared.stages, scores), indent=2))
    else:
        click.echo(_as_text(element, plan, compared.stages, scores, made=frames is None))
    context.exit(1 if departs is not None or lost else 0)


def element_of(model: Path, task: str | None, settings: tuple[str, ...]) -> ModelElement:
    """The step that runs a model: its task is told, or is its card's or file's; settings are KEY=VALUE.

    Raises ConfigurationError for a setting that the step does not have.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    from sightline.config import parse_steps
    from sightline.config.document import InvalidConfiguration, dotted
    from sightline.errors import ConfigurationError
    from sightline_plugins.infer.card import read_card, read_metadata
    from sightline_plugins.infer.facts import read_facts
    from sightline_plugins.infer.options import ModelElement

    said = task or read_card(model).task or read_metadata(read_facts(model).metadata).task or "detect"
    name = said if said in TASKS else "detect"
    options: dict[str, Any] = {"model": str(model)}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigurationError(f"--set {setting}: write KEY=VALUE, such as head=yolox")
        try:
            options[key] = YAML(typ="safe", pure=True).load(value)
        except MarkedYAMLError as error:
            raise ConfigurationError(f"--set {setting}: the value is not valid YAML: {error.problem}") from error
    try:
        (element,) = parse_steps([{name: options}])
    except InvalidConfiguration as error:
        told = [f"--set {dotted(one.key[_OPTION_DEPTH:])}: {one.message}" for one in error.problems]
        raise ConfigurationError("; ".join(told)) from error
    assert isinstance(element, ModelElement)
    return element


def plan_of(element: ModelElement) -> tuple[ModelPlan, BoxSettings | None]:
    """The plan of a step, and what its boxes depend on when it finds boxes. Raises ModelError with every mistake."""
    from sightline.errors import ModelError
    from sightline_plugins.commands.verify.comparison import BoxSettings
    from sightline_plugins.infer.detections import detection_rules
    from sightline_plugins.infer.options import DetectionElement

    plan, problems = element.plan()
    if plan is None:
        hint = "; it was taken for a detector: --task says what else it is" if element.name == "detect" else ""
        raise ModelError("; ".join(problem.message for problem in problems) + hint)
    if not isinstance(element, DetectionElement):
        return plan, None
    rules = detection_rules(element, plan)
    return plan, BoxSettings(rules.nms, rules.confidence)


def _images(frames: str | None, count: int) -> Iterator[ImagePair]:
    from sightline_plugins.commands.verify.images import images_of, made_images

    return made_images(count) if frames is None else images_of(frames, count=count)


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
    departs = stages.first_departure
    return {
        "stages": {
            stage.name: {"departure": stage.departure, "limit": stage.limit, "within": stage.is_within}
            for stage in stages
        },
        "departs": None if departs is None else departs.name,
        "scores": scores,
    }


def _as_text(element: ModelElement, plan: ModelPlan, stages: Stages, scores: dict[str, float], *, made: bool) -> str:
    from sightline_plugins.commands.verify.comparison import MEANING

    head = "-" if plan.head is None else plan.head.name
    lines = [f"{element.model}: {element.name}, head {head}, {_input(plan)}"]
    for stage in stages:
        mark = "ok     " if stage.is_within else "DEPARTS"
        lines.append(
            f"  {mark} {stage.name:10} {stage.departure:10.5f}  at most {stage.limit:g}   {MEANING[stage.name]}"
        )
    if scores:
        lines.append(
            f"  COCO AP {scores['ap']:.4f} (AP50 {scores['ap50']:.4f}), "
            f"plain recipe {scores['plain_ap']:.4f} (AP50 {scores['plain_ap50']:.4f})"
        )
    departs = stages.first_departure
    lines.append(
        "every stage agrees with the plain reference"
        if departs is None
        else f"the first stage that departs is {departs.name!r}"
    )
    if departs is not None and departs.name == "answers":
        lines.append(
            "each stage alone agrees, but the model reacts to single levels of its input: with convert: image it "
            "gets the very pixels that OpenCV gives"
        )
    if made:
        lines.append("on made images, which show few objects: --frames tries it on yours")
    return "\n".join(lines)


def _input(plan: ModelPlan) -> str:
    said = plan.preprocessing
    size = "as large as the image" if said.size_wh is None else f"{said.size_wh[0]}x{said.size_wh[1]}"
    return f"input {size}, {said.fit}, {said.resize}, {said.color}, mean {said.mean}, scale {said.scale}"
