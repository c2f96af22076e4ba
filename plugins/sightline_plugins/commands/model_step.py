"""The step that runs a model, from the options that commands about models share: `--task` and `--set`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sightline_plugins.infer.options import ModelElement
    from sightline_plugins.infer.tasks import TaskChoice

TASKS = ("detect", "classify", "segment", "pose", "embed", "read")
_OPTION_DEPTH = len(("pipeline", 0, "detect"))
"""Length of the key path of a step by itself, after which an option's name begins."""

task_option = click.option(
    "--task",
    "--as",
    "task",
    type=click.Choice(TASKS),
    help="The step that runs it; by default what its card, its metadata or its outputs say.",
)
setting_option = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="An option of the step, such as head=yolox."
)


def model_step(model: Path | str, task: str | None, settings: tuple[str, ...]) -> tuple[ModelElement, TaskChoice]:
    """Return the step that runs a model, a file or an address, and why it is that step. Settings are KEY=VALUE.

    The model may be a name of the catalogue. Raises ModelError for a model or card that cannot be read, and
    ConfigurationError for a setting that the step does not have.
    """
    from sightline.config import parse_steps
    from sightline.config.document import InvalidConfiguration, dotted
    from sightline.errors import ConfigurationError
    from sightline_plugins.engines.address import address_of, file_of_name
    from sightline_plugins.infer.options import ModelElement
    from sightline_plugins.infer.tasks import choose_task

    given = parse_settings(settings)
    head = given.get("head")
    try:
        model = file_of_name(str(model)) or model
        source = Path(model) if address_of(model) is None else model
        choice = choose_task(source, task, head=head if isinstance(head, str) else None)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    options = {"model": str(model), **given}
    try:
        (element,) = parse_steps([{choice.task: options}])
    except InvalidConfiguration as error:
        messages = [f"--set {dotted(one.key[_OPTION_DEPTH:])}: {one.message}" for one in error.problems]
        raise ConfigurationError("; ".join(messages)) from error
    assert isinstance(element, ModelElement)
    return element, choice


def parse_settings(settings: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the values of KEY=VALUE settings, by key. Raises ConfigurationError."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    from sightline.errors import ConfigurationError

    options: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigurationError(f"--set {setting}: write KEY=VALUE, such as head=yolox")
        try:
            options[key] = YAML(typ="safe", pure=True).load(value)
        except MarkedYAMLError as error:
            raise ConfigurationError(f"--set {setting}: the value is not valid YAML: {error.problem}") from error
    return options
