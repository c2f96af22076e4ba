"""`sightline ctl`: the configuration as a whole."""

from __future__ import annotations

import difflib
import io
import time
from collections.abc import Iterator

import click

from sightline.cli.ctl.shared import Server, json_option, print_json, server_of_context, tell, value_of
from sightline.cli.options import debug_option
from sightline.cli.text import columns

_WRONG = 2
_prove_option = click.option(
    "--prove",
    type=click.FloatRange(0, 300),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long it has to work; else it is taken back.",
)


@click.command("config")
@json_option
@debug_option
@server_of_context
def config(server: Server, as_json: bool) -> None:
    """Print the configuration as YAML, with what has changed since the start, and secrets as `***`."""
    with server.open() as pipeline:
        found = pipeline.configuration()
    if as_json:
        print_json({"etag": found.etag, "configuration": value_of(found.text, "configuration")})
    else:
        click.echo(found.text, nl=False)


@click.command("apply")
@click.argument("file", type=click.File())
@click.option("--dry-run", is_flag=True, help="Check it, print the difference, and change nothing.")
@_prove_option
@json_option
@debug_option
@server_of_context
def apply(server: Server, file: io.TextIOBase, dry_run: bool, prove: float, as_json: bool) -> int:
    """Replace the configuration by FILE, as `config` prints it; `-` is standard input.

    It is checked first, and the difference printed. The command waits until it has worked for some seconds, and fails
    with the reason when it was taken back. `***` stays what it is; variables of the environment are not replaced. When
    somebody else changes the configuration at the same time, nothing is applied.
    """
    text = file.read()
    with server.open() as pipeline:
        present = pipeline.configuration()
        verdict = pipeline.check(text)
        if not verdict.valid:
            for problem in verdict.problems:
                place = f"{getattr(file, 'name', 'FILE')}:{problem.line}:{problem.column}" if problem.line else ""
                click.echo(": ".join(part for part in (place, problem.path, problem.message) if part), err=True)
            return _WRONG
        difference = list(_difference(present.text, text))
        if not as_json:
            for line in difference:
                click.echo(line)
        if not difference:
            click.echo("nothing changes", err=True)
        if dry_run or not difference:
            return 0
        tell(pipeline.apply(text, if_match=present.etag, prove=prove), "applied", as_json=as_json)
    return 0


@click.command("rollback")
@click.option("--to", metavar="TAG", help="The configuration with this tag (`versions`); else the last that worked.")
@_prove_option
@json_option
@debug_option
@server_of_context
def rollback(server: Server, to: str | None, prove: float, as_json: bool) -> None:
    """Go back to the last configuration that worked, or to another one."""
    with server.open() as pipeline:
        tell(pipeline.roll_back(to, prove=prove), "rolled back", as_json=as_json)


@click.command("versions")
@json_option
@debug_option
@server_of_context
def versions(server: Server, as_json: bool) -> None:
    """List the versions of the configuration, the present one last."""
    with server.open() as pipeline:
        found = pipeline.versions()
    if as_json:
        print_json(found)
        return
    rows = [("version", "tag", "applied", "by", "worked")]
    for one in found:
        applied = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.time))
        rows.append((str(one.version), one.etag, applied, one.by, "yes" if one.proven else "not yet"))
    click.echo(columns(rows))


@click.command("save")
@debug_option
@server_of_context
def save(server: Server) -> None:
    """Let the server write the configuration to its YAML file; comments and order stay."""
    with server.open() as pipeline:
        click.echo("the file is written" if pipeline.save() else "the file is as it was", err=True)


def _difference(before: str, after: str) -> Iterator[str]:
    """The lines that differ, whatever the comments and the style of both texts."""
    one, other = (_lines(value_of(text, "FILE")) for text in (before, after))
    return difflib.unified_diff(one, other, "running", "wanted", lineterm="")


def _lines(value: object) -> list[str]:
    """YAML in one style, without secrets."""
    from ruamel.yaml import YAML

    from sightline.redaction import redact

    yaml, text = YAML(), io.StringIO()
    yaml.dump(value, text)
    return redact(text.getvalue()).splitlines()
