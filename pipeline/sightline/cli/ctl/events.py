"""`sightline ctl events`: what happens, as it happens."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from sightline.cli.ctl.shared import Server, server_of_context, short, stream_names
from sightline.cli.options import debug_option

if TYPE_CHECKING:
    from sightline.client.events import Record


@click.command("events")
@click.option("--stream", "streams", multiple=True, metavar="NAME", shell_complete=stream_names, help="Of this stream.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Of this kind, such as `line` or `stream_lost`.")
@click.option(
    "--type", "types", multiple=True, type=click.Choice(["event", "message"]), help="Of rules, or of the run."
)
@click.option("--recent", type=click.IntRange(1, 1000), metavar="N", help="Print the last N of all, and end.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after N.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each.")
@debug_option
@server_of_context
def events(
    server: Server,
    streams: tuple[str, ...],
    kinds: tuple[str, ...],
    types: tuple[str, ...],
    recent: int | None,
    count: int | None,
    as_json: bool,
) -> None:
    """Print events of rules and messages of the run as they come, until Ctrl-C.

    Names and kinds may be globs (`gate*`). A broken connection is made again, and what came meanwhile follows.
    """
    if recent is not None and (streams or kinds or types or count):
        raise click.UsageError("--recent shows the last of all: it goes with --json only.")
    with server.open() as pipeline:
        if recent is not None:
            for kept in pipeline.recent_events(limit=recent):
                _print(kept, as_json=as_json)
            return
        following = pipeline.events(streams=streams, kinds=kinds, types=types)
        with closing(following):
            for number, record in enumerate(following, start=1):
                _print(record, as_json=as_json)
                if number == count:
                    return


def _print(record: Record, *, as_json: bool) -> None:
    click.echo(record.model_dump_json(exclude_none=True) if as_json else _line(record))


def _line(record: Record) -> str:
    if record.record == "lost":
        return f"{record.count} records are lost: this reader was too slow, or too long away"
    place = " ".join(name for name in (record.stream, record.element) if name)
    if record.record == "message":
        return f"{record.time}  {place}  {record.text}"
    rest = {name: value for name, value in record.event.items() if name not in ("kind", "rule")}
    label = f" {record.label}" if record.label else ""
    return f"{record.time}  {place}  {record.event.get('kind')} {record.event.get('rule') or ''}{label}  {short(rest)}"
