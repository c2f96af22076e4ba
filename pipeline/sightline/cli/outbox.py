"""`sightline outbox`: what waits for destinations, delivered or removed without running the pipeline."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline.cli.options import DURATION, debug_option

if TYPE_CHECKING:
    from sightline.graph import PipelineDescription
    from sightline.graph.transport import Delivers
    from sightline.runtime.delivery.chunks import Waiting
    from sightline.runtime.delivery.outbox import RunOutbox
    from sightline.runtime.stats.counters import DeliveryStats

_YAML = (".yaml", ".yml")
_SHOWN_EVERY_SECONDS = 2.0
_FAILED = 1

_output_root = click.option(
    "--output-root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder that outputs are written below, as given to `sightline run`; else the working directory.",
)


@click.group("outbox")
def command() -> None:
    """Show, deliver or remove records that wait for destinations.

    Steps that deliver records (`mqtt`, `kafka`, `postgres`, ...) keep them in an outbox until their destination has
    them. CONFIG is the pipeline that made it; `show` and `purge` also take the file of an outbox itself.
    """


@command.command("show")
@click.argument("config", type=click.Path(path_type=Path))
@_output_root
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def show(config: Path, output_root: Path | None, as_json: bool) -> None:
    """Print what waits for each destination; also while the pipeline runs."""
    description = _description(config)
    waiting, path = _waiting(config, description, output_root)
    addresses = {} if description is None else _addresses(description)
    now_ns = time.time_ns()
    rows = {
        name: {
            "records": one.records,
            "bytes": one.size,
            "oldest_seconds": round(max(now_ns - (one.oldest_ns or now_ns), 0) / 1e9, 1),
            "address": addresses.get(name),
        }
        for name, one in waiting.items()
    }
    if as_json:
        click.echo(json.dumps({"outbox": str(path), "destinations": rows}, indent=2))
        return
    if not rows:
        click.echo(f"{path}: nothing waits")
        return
    from sightline.cli.text import columns

    table = [("destination", "records", "size", "oldest", "address")]
    for name, row in rows.items():
        known = row["address"] or ("" if description is None else "no step of the pipeline has this id")
        size_bytes = int(row["bytes"] or 0)
        size = f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 100_000 else f"{size_bytes / 1e3:.1f} kB"
        table.append((name, str(row["records"]), size, f"{row['oldest_seconds']} s", str(known)))
    click.echo(f"{path}:")
    click.echo(columns(table, indent="  "))


@command.command("drain")
@click.argument("config", type=click.Path(path_type=Path))
@_output_root
@click.option("--timeout", type=DURATION, metavar="TIME", help="Give up after this long, such as 5m; never by default.")
@debug_option
def drain(config: Path, output_root: Path | None, timeout: int | None) -> int:
    """Deliver what waits, without running the pipeline; Ctrl-C ends it, and keeps what is left.

    The exit code is 1 when records are left.
    """
    # All before anything is delivered: Python 3.11 exits with a signal when Ctrl-C came within an import.
    from sightline.cli.progress import delivery_text
    from sightline.devices import Device
    from sightline.errors import ConfigurationError
    from sightline.graph import Message, Outputs, Site
    from sightline.graph.site import SystemClock
    from sightline.runtime.delivery.outbox import OutboxLimits, RunOutbox

    description = _description(config)
    if description is None:
        raise ConfigurationError(f"{config}: name the YAML file of the pipeline, which says how to deliver")
    waiting, path = _waiting(config, description, output_root)
    destinations = _destinations(description)
    for name in sorted(set(waiting) - set(destinations)):
        click.echo(
            f"{name}: no step of the pipeline has this id; its records stay (`sightline outbox purge`)", err=True
        )
    known = {name: one for name, one in destinations.items() if name in waiting}
    if not known:
        click.echo(f"{path}: nothing to deliver")
        return 0

    def post(message: Message) -> None:
        click.echo(f"{message.element}: {message.text}" if message.element else message.text, err=True)

    limits = OutboxLimits(description.outbox.size, description.outbox.age)
    clock, outputs = SystemClock(), Outputs(output_root)
    outbox = RunOutbox(path, outputs=outputs, clock=clock, post=post, limits=limits)
    site = Site(Device(), pipeline=description.name, outputs=outputs, outbox=outbox)
    try:
        for name, element in known.items():
            transport = element.transport(replace(site, element_id=name))
            outbox.mailbox(name, address=element.destination(), transport=transport).close()
        _wait(outbox, text_of=delivery_text, timeout_seconds=None if timeout is None else timeout / 1e9)
    finally:
        outbox.linger(at_most_ns=0)
        outbox.close()
    left = sum(one.depth for one in outbox.stats)
    for one in outbox.stats:
        counts = [f"{one.delivered} records delivered to {one.address}", f"{one.depth} left"]
        counts += [f"{one.refused} refused"] if one.refused else []
        counts += [f"{lost} dropped"] if (lost := one.dropped.total()) else []
        click.echo(f"{one.destination}: {', '.join(counts)}")
    return _FAILED if left else 0


@command.command("purge")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--destination", metavar="ID", help="Remove the records for this step only.")
@_output_root
@click.option("--yes", is_flag=True, help="Do not ask.")
@debug_option
def purge(config: Path, destination: str | None, output_root: Path | None, yes: bool) -> None:
    """Remove records that wait. They are lost."""
    from sightline.errors import ConfigurationError
    from sightline.runtime.delivery.store import OutboxStore

    waiting, path = _waiting(config, _description(config), output_root)
    if destination is not None and destination not in waiting:
        known = ", ".join(waiting) or "none"
        raise ConfigurationError(f"{path}: nothing waits for {destination!r}; destinations with records: {known}")
    records = sum(one.records for name, one in waiting.items() if destination in (None, name))
    if not records:
        click.echo(f"{path}: nothing waits")
        return
    if not yes:
        click.confirm(f"Remove {records} records for {destination or 'all destinations'} from {path}?", abort=True)
    store = OutboxStore(path)
    try:
        store.purge(destination)
    finally:
        store.close()
    click.echo(f"{path}: {records} records removed")


def _description(config: Path) -> PipelineDescription | None:
    """Return the pipeline; None when the file is an outbox."""
    from sightline.config import load_description

    return load_description(config) if config.suffix.lower() in _YAML or not config.exists() else None


def _waiting(
    config: Path, description: PipelineDescription | None, output_root: Path | None
) -> tuple[Mapping[str, Waiting], Path]:
    """Return what waits, by destination, and the file of the outbox."""
    from sightline.graph import Outputs
    from sightline.runtime.delivery.store import OutboxStore

    path = config if description is None else Outputs(output_root).path(description.outbox_path)
    if not path.exists():
        return {}, path
    store = OutboxStore(path, read_only=True)
    try:
        return store.waiting(), path
    finally:
        store.close()


def _destinations(description: PipelineDescription) -> Mapping[str, Delivers]:
    from sightline.graph.transport import destinations

    return dict(destinations(description.elements()))


def _addresses(description: PipelineDescription) -> Mapping[str, str]:
    return {name: element.destination() for name, element in _destinations(description).items()}


def _wait(outbox: RunOutbox, *, text_of: Callable[[DeliveryStats], str], timeout_seconds: float | None) -> None:
    """Wait until everything is delivered, and say how it goes in the words of `text_of`."""
    started = shown = time.monotonic()
    while any(one.depth for one in outbox.stats):
        now = time.monotonic()
        if timeout_seconds is not None and now - started > timeout_seconds:
            return
        if now - shown >= _SHOWN_EVERY_SECONDS:
            shown = now
            for one in outbox.stats:
                click.echo(f"{one.destination}: {text_of(one)}", err=True)
        time.sleep(0.05)
