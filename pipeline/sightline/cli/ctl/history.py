"""`sightline ctl history`: how the last hours and days were."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from sightline.cli.ctl.shared import Server, json_option, print_json, server_of_context, stream_names
from sightline.cli.options import debug_option
from sightline.cli.text import columns
from sightline.media.time import parse_duration_ns

if TYPE_CHECKING:
    from sightline.api import HistoryTable


@click.command("history")
@click.argument("series", nargs=-1, required=True)
@click.option("--stream", "streams", multiple=True, metavar="NAME", shell_complete=stream_names, help="Of this stream.")
@click.option("--since", default="1h", show_default=True, metavar="DURATION", help="How far back it goes, as in `24h`.")
@click.option("--step", metavar="DURATION", help="The time between two values, such as `10m`.")
@json_option
@debug_option
@server_of_context
def history(
    server: Server, series: tuple[str, ...], streams: tuple[str, ...], since: str, step: str | None, as_json: bool
) -> None:
    """Print time series, such as `fps`, `tracks`, `crossings` or `occupancy`: a line for each value.

    A wrong name is answered with all that there are.
    """
    try:
        start = datetime.now(UTC) - timedelta(microseconds=parse_duration_ns(since) / 1_000)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error), param_hint="--since") from error
    with server.open() as pipeline:
        table = pipeline.history(*series, streams=streams, start=start, step=step)
    if as_json:
        print_json(table)
    else:
        click.echo(columns([("time", "stream", "series", "key", "value"), *_rows(table)]))


def _rows(table: HistoryTable) -> Iterator[tuple[str, ...]]:
    for index, seconds in enumerate(table.times):
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
        for one in table.columns:
            value = one.values[index]
            if value is not None:
                yield when, one.stream, one.series, one.key, f"{value:g}"
