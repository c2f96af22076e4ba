"""`sightline models show`: what a model is, how it would be run, and what it finds on an image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sightline_plugins.commands.model_step import model_step, parse_settings, setting_option, task_option
from sightline_plugins.commands.models.store_options import store_of, store_option

if TYPE_CHECKING:
    from sightline_plugins.commands.models.describe import ModelDescription
    from sightline_plugins.commands.models.on_image import ImageResult


@click.command("show", short_help="Show what a model is and how it would be run.")
@click.argument("model")
@task_option
@setting_option
@store_option
@click.option(
    "--image", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Run it once on an image or clip."
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="JPEG for the image with its results drawn; IMAGE-MODEL.jpg in the working directory when not given.",
)
@click.option("--overwrite", is_flag=True, help="Replace the JPEG also when Sightline did not write it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def show(
    context: click.Context,
    model: str,
    task: str | None,
    settings: tuple[str, ...],
    store_folder: Path | None,
    image: Path | None,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Show what MODEL is, and how a step would run it: an ONNX file, a model of the catalogue (yolox-nano) or of the
    store (store:plates@2), or a served model.

    Prints its inputs and outputs, the step and the head that fit and why, the labels, every value of the
    pre-processing with its origin, the engine on this machine, and the YAML of the step. With --image the step runs
    once, as in a pipeline; its results are printed and drawn.

    The exit code is 1 when a step could not run the model; the reasons and what to do are printed.
    """
    from sightline.errors import ConfigurationError
    from sightline_plugins.commands.models.describe import describe
    from sightline_plugins.commands.models.on_image import check_output, run_on_image
    from sightline_plugins.store.record import SCHEME

    given = parse_settings(settings)
    if store_folder is not None and model.startswith(SCHEME):
        model = str(store_of(store_folder).usable(model).model)
    element, choice = model_step(model, task, settings)
    if image is None and output is not None:
        raise ConfigurationError("--output is for the results on an image: give --image")
    outputs = None if image is None else check_output(image, element.model, output=output, overwrite=overwrite)
    description, plan = describe(element, choice, given=given)
    result = None
    if image is not None and outputs is not None and plan is not None and not description.problems:
        result = run_on_image(element, plan, image, target=outputs)
    click.echo(_as_json(description, result) if as_json else _as_text(description, result, image))
    context.exit(1 if description.problems else 0)


def _as_json(description: ModelDescription, result: ImageResult | None) -> str:
    import msgspec

    report: dict[str, Any] = msgspec.to_builtins(description)
    report["image"] = None if result is None else msgspec.to_builtins(result)
    return json.dumps(report, indent=2)


def _as_text(description: ModelDescription, result: ImageResult | None, image: Path | None) -> str:
    from sightline_plugins.commands.models.text import as_text, image_as_text

    text = as_text(description)
    if result is not None:
        return f"{text}\n\n{image_as_text(result)}"
    return text if image is None else f"{text}\n\nNot run on {image}, for the reasons above."
