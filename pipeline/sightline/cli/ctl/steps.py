"""`sightline ctl`: the pipeline with its steps, their options and their rules."""

from __future__ import annotations

import io
import json
from typing import Any

import click

from sightline.cli.ctl.shared import (
    Server,
    element_names,
    json_option,
    mapping,
    print_json,
    prove_option,
    rule_names,
    server_of_context,
    short,
    stream_names,
    tell,
    value_of,
)
from sightline.cli.options import debug_option
from sightline.cli.text import columns


@click.command("show")
@click.argument("element", required=False, shell_complete=element_names)
@json_option
@debug_option
@server_of_context
def show(server: Server, element: str | None, as_json: bool) -> None:
    """Show the pipeline and its steps, or the options of one step, such as `zones-1`."""
    with server.open() as pipeline:
        if element is not None:
            found = pipeline.element(element)
            if as_json:
                print_json(found)
                return
            click.echo(f"{found.id}: {found.purpose}")
            live = [
                (key, "yes" if key in found.changes_live else "", short(found.options[key])) for key in found.options
            ]
            click.echo(columns([("option", "changes live", "value"), *live], indent="  "))
            return
        state, elements = pipeline.state(), pipeline.elements()
    if as_json:
        print_json({"pipeline": state, "elements": elements})
        return
    words = ["running" if state.running else "not running", "ready" if state.ready else "not ready"]
    words += [] if state.saved else ["changed since its file was written"]
    words += [] if state.streams is None else [f"{state.streams} streams", f"configuration {state.etag}"]
    click.echo(f"{state.name}: {', '.join(words)}")
    click.echo(columns([("id", "purpose"), *((one.id, one.purpose) for one in elements)], indent="  "))


@click.command("rules")
@json_option
@debug_option
@server_of_context
def rules(server: Server, as_json: bool) -> None:
    """List the rules, and what they have counted."""
    with server.open() as pipeline:
        found = pipeline.rules()
    if as_json:
        print_json(found)
        return
    rows = [("rule", "stream", "counts")]
    for one in found:
        by_stream = one.counts or {"": {}}
        rows += [(f"{one.element}/{one.name}", stream, short(counts)) for stream, counts in by_stream.items()]
    click.echo(columns(rows))


@click.command("rule")
@click.argument("rule", metavar="STEP/RULE", shell_complete=rule_names)
@click.argument("options", required=False)
@click.option(
    "-f", "--file", type=click.File(), help="Take the options from a file (YAML or JSON); `-` is standard input."
)
@click.option("--remove", "is_removed", is_flag=True, help="Remove the rule.")
@click.option("--rename", metavar="NAME", help="Give the rule another name. Its counts go along.")
@prove_option
@json_option
@debug_option
@server_of_context
def rule(
    server: Server,
    rule: str,
    options: str | None,
    file: io.TextIOBase | None,
    is_removed: bool,
    rename: str | None,
    prove: float | None,
    as_json: bool,
) -> None:
    """Show a rule, such as `zones-1/plaza`; with OPTIONS, add or replace it while it counts.

    OPTIONS are as in YAML: `'{"polygon": [[0.2, 0.4], [0.8, 0.4], [0.8, 0.9]]}'`. Counts stay.
    """
    element, slash, name = rule.partition("/")
    if not (element and slash and name):
        raise click.BadParameter("give the step and the rule, such as zones-1/plaza.", param_hint="STEP/RULE")
    if (is_removed or rename is not None) and (options is not None or file is not None):
        raise click.UsageError(f"{'--remove' if is_removed else '--rename'} takes no options.")
    if is_removed and rename is not None:
        raise click.UsageError("--remove and --rename exclude each other.")
    with server.open() as pipeline:
        if rename is not None:
            etag = pipeline.configuration().etag
            if any((one.element, one.name) == (element, rename) for one in pipeline.rules()):
                raise click.BadParameter(f"{element} has a rule {rename} already.", param_hint="--rename")
            changes = {element: {name: None, rename: pipeline.rule(element, name).options}}
            made = pipeline.change_rules(changes, if_match=etag, prove=prove)
            tell(made, f"{rule} is {element}/{rename}", as_json=as_json)
        elif is_removed:
            tell(pipeline.remove_rule(element, name, prove=prove), f"{rule} is removed", as_json=as_json)
        elif options is not None or file is not None:
            given = mapping(options, file, "OPTIONS")
            tell(pipeline.put_rule(element, name, given, prove=prove), f"{rule} is set", as_json=as_json)
        else:
            found = pipeline.rule(element, name)
            click.echo(json.dumps(found.options, indent=2)) if not as_json else print_json(found)


@click.command("reset")
@click.argument("step", shell_complete=element_names)
@click.option("--stream", metavar="NAME", shell_complete=stream_names, help="Those of one stream; else of all.")
@debug_option
@server_of_context
def reset(server: Server, step: str, stream: str | None) -> None:
    """Let the counts of the rules of STEP, such as `lines-1`, begin anew with the next frame.

    Who is inside stays, and what lasts goes on.
    """
    with server.open() as pipeline:
        pipeline.reset_counts(step, stream=stream)


@click.command("set")
@click.argument("changes", nargs=-1, required=True, metavar="STEP.OPTION=VALUE...")
@prove_option
@json_option
@debug_option
@server_of_context
def change(server: Server, changes: tuple[str, ...], prove: float | None, as_json: bool) -> None:
    """Change options of one step, such as `zones-1.gone=3s`; several are changed together.

    Options below others are named with dots. Values are as in YAML; `null` takes an option out. `sightline ctl show
    STEP` says which options change while the step goes on; for others the step is built anew.
    """
    patches: dict[str, Any] = {}
    for one in changes:
        path, equals, text = one.partition("=")
        keys = path.split(".")
        if not equals or len(keys) < 2 or not all(keys):
            raise click.BadParameter(f"{one!r} is not of the form STEP.OPTION=VALUE.", param_hint="CHANGES")
        below = patches
        for key in keys[:-1]:
            below = below.setdefault(key, {})
            if not isinstance(below, dict):
                raise click.BadParameter(f"{path} lies below a value that is set, too.", param_hint="CHANGES")
        below[keys[-1]] = value_of(text, "VALUE")
    if len(patches) > 1:
        raise click.UsageError(f"{', '.join(patches)}: change one step at a time, or use `sightline ctl apply`.")
    ((element, patch),) = patches.items()
    with server.open() as pipeline:
        tell(pipeline.change_element(element, patch, prove=prove), f"{element} is changed", as_json=as_json)
