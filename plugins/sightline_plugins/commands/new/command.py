"""`sightline new`: write a pipeline for a camera or file, with a model that is known, after three questions."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline.cli.options import debug_option
from sightline.cli.written import WrittenFile

if TYPE_CHECKING:
    from sightline_plugins.commands.new.wishes import Offer

DEFAULT_FILE = "pipeline.yaml"
_EXAMPLE = "rtsp://user:password@10.0.0.7/main"


@click.command("new", short_help="Write a pipeline for your camera or file, after three questions.")
@click.argument("source", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path(DEFAULT_FILE),
    show_default=True,
    help="The file to write.",
)
@click.option("--find", "words", metavar="WORDS", help="What to look for, such as people or car,truck.")
@click.option("--want", "wants", metavar="WORDS", help="What to do: counts, zone, video, events, or several.")
@click.option(
    "--model",
    metavar="NAME",
    help="The model: one of the catalogue, or store:NAME. Default: the first of the catalogue that finds all of it.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file when it is there.")
@debug_option
def command(
    source: str | None, output: Path, words: str | None, wants: str | None, model: str | None, overwrite: bool
) -> None:
    """Write a commented pipeline for SOURCE: a file, a folder, a URL such as rtsp://..., or a device.

    What is not given is asked for: the source, what to look for, and what to do. The password of a URL is not written:
    the file reads it from the environment. Nothing is downloaded and nothing runs.
    """
    from sightline.config.schema import SCHEMA_FILE, json_schema
    from sightline.errors import ConfigurationError
    from sightline.graph.registry import Registry
    from sightline.graph.wording import suggest
    from sightline_plugins.catalogue import pulled
    from sightline_plugins.commands.new.wishes import WANTS, choose_model, classes_of, read_source
    from sightline_plugins.commands.new.writing import Plan, pipeline_text
    from sightline_plugins.store.record import SCHEME

    written = WrittenFile("--output", output, overwrite=overwrite, is_edited=True, makes_folder=True)
    written.check()
    schema = WrittenFile("--output", output.with_name(SCHEMA_FILE), overwrite=overwrite)
    schema.check()
    offers, registry = _offers(model), Registry()
    given = source or _asked(f"Which camera or file? (such as {_EXAMPLE})", "SOURCE")
    camera = read_source(given, beside=output.parent)
    registry.source_for(camera.uri)
    chosen = words or _asked("What to look for? (people, vehicles, car, dog, faces, ...)", "--find", default="people")
    classes = classes_of(chosen.split(","), catalogue=offers)
    menu = "".join(f"\n  {name:8} {meaning}" for name, meaning in WANTS.items())
    asked = wants or _asked(f"What to do? One or several of:{menu}\n", "--want", default="counts")
    wanted = [word.strip() for word in asked.split(",")]
    for word in wanted:
        if word not in WANTS:
            near = suggest(word, WANTS) or f"; allowed: {', '.join(WANTS)}"
            raise ConfigurationError(f"--want: there is no {word!r}{near}")
    chosen_model = choose_model(classes, catalogue=offers, pulled=[name for name in offers if pulled(name) is not None])
    plan = Plan(camera, classes, chosen_model, wanted)
    written.write(pipeline_text(plan, file=str(output)))
    schema.write(json.dumps(json_schema(registry)))
    click.echo(f"{output}: {', '.join(classes)} in {camera.name} with {chosen_model.name} ({chosen_model.licence})")
    click.echo(f"{schema.path}: for editors, which complete and check the pipeline by it")
    click.echo("next")
    if camera.variable is not None:
        click.echo(f"  export {camera.variable}=...   the password, which is not in the file; as in the URL")
    if not chosen_model.name.startswith(SCHEME) and pulled(chosen_model.name) is None:
        click.echo(f"  sightline models pull {chosen_model.name}")
    click.echo(f"  sightline check {output}\n  sightline run {output}")


def _offers(model: str | None) -> Mapping[str, Offer]:
    """Return the models to choose from: the catalogue, or the one that was named. Raises ConfigurationError."""
    from sightline.errors import ConfigurationError
    from sightline.graph.wording import suggest
    from sightline_plugins.commands.new.wishes import catalogue_offers, stored_offer
    from sightline_plugins.store.record import SCHEME

    if model is not None and model.startswith(SCHEME):
        return {model: stored_offer(model)}
    catalogue = catalogue_offers()
    if model is not None and model not in catalogue:
        near = suggest(model, catalogue) or "; `sightline models list` lists them"
        raise ConfigurationError(f"--model: there is no {model!r} in the catalogue{near}")
    return catalogue if model is None else {model: catalogue[model]}


def _asked(question: str, option: str, *, default: str | None = None) -> str:
    """Ask on the terminal. Raises UsageError, which names the option, where there is none."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"give {option}: there is no terminal to ask on")
    answer: str = click.prompt(question, default=default, err=True)
    return answer
