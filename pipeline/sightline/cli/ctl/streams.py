"""`sightline ctl`: streams, and what is taken of them."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from sightline.cli.ctl.shared import (
    Server,
    element_names,
    json_option,
    mapping,
    print_json,
    prove_option,
    server_of_context,
    stream_names,
    tell,
)
from sightline.cli.options import debug_option
from sightline.cli.text import columns
from sightline.cli.written import STANDARD_OUTPUT, WrittenFile, overwrite_option


@click.command("streams")
@json_option
@debug_option
@server_of_context
def streams(server: Server, as_json: bool) -> None:
    """List the streams: state, frames a second, and where they come from."""
    with server.open() as pipeline:
        found = pipeline.streams()
    if as_json:
        print_json(found)
        return
    rows = [("stream", "state", "frames/s", "dropped", "source")]
    for one in found:
        status = one.status or {}
        rates = status.get("rates", {})
        dropped = sum(status.get("dropped", {}).values())
        cause = f" ({status['cause']})" if status.get("cause") else ""
        rows.append(
            (
                one.name,
                status.get("state", "-"),
                f"{rates.get('finished', 0):.1f}",
                str(dropped),
                source_text(one.source) + cause,
            )
        )
    click.echo(columns(rows))


@click.command("add")
@click.argument("name")
@click.argument("source", required=False)
@click.option(
    "-f", "--file", type=click.File(), help="Take the source from a file (YAML or JSON); `-` is standard input."
)
@prove_option
@json_option
@debug_option
@server_of_context
def add(
    server: Server, name: str, source: str | None, file: io.TextIOBase | None, prove: float | None, as_json: bool
) -> None:
    """Add the stream NAME, or replace its source.

    SOURCE is a URL, or options as in YAML: `'{uri: rtsp://192.168.1.20/main, max_fps: 5}'`.
    """
    given = source if source is not None and not source.lstrip().startswith("{") else mapping(source, file, "SOURCE")
    with server.open() as pipeline:
        tell(pipeline.put_stream(name, given, prove=prove), f"{name} is added", as_json=as_json)


@click.command("test")
@click.argument("source")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the image there, as JPEG.")
@overwrite_option
@json_option
@debug_option
@server_of_context
def test(server: Server, source: str, output: Path | None, overwrite: bool, as_json: bool) -> int:
    """Try SOURCE before it is added: connect once, and say what is there, or why nothing is. Nothing changes.

    SOURCE is a URL, or options as in YAML. The server connects, and judges the address as when it is added.
    """
    given = mapping(source, None, "SOURCE") if source.lstrip().startswith("{") else source
    image = None if output is None else WrittenFile("--output", output, overwrite=overwrite)
    if image is not None:
        image.check()
    with server.open() as pipeline:
        found = pipeline.test_source(given)
    if image is not None and found.image is not None:
        image.write(base64.b64decode(found.image))
    if as_json:
        print_json(found)
    elif found.reason is not None:
        click.echo(f"{found.reason}: {found.message}", err=True)
    else:
        size = "x".join(map(str, found.size or ()))
        rate = "" if found.fps is None else f", {found.fps:g} frames/s"
        click.echo(f"{found.codec or 'video'} {size}{rate}, {found.audio or 'no'} sound, after {found.seconds:.1f} s")
    return 0 if found.reason is None else 1


@click.command("remove")
@click.argument("name", shell_complete=stream_names)
@json_option
@debug_option
@server_of_context
def remove(server: Server, name: str, as_json: bool) -> None:
    """Remove the stream NAME; its last frames pass all steps, and its files are closed."""
    with server.open() as pipeline:
        tell(pipeline.remove_stream(name), f"{name} is removed", as_json=as_json)


@click.command("pause")
@click.argument("name", shell_complete=stream_names)
@json_option
@debug_option
@server_of_context
def pause(server: Server, name: str, as_json: bool) -> None:
    """Disconnect the camera NAME, or stop a file where it is, until `resume`."""
    with server.open() as pipeline:
        found = pipeline.pause(name)
    print_json(found) if as_json else click.echo(f"{name} is paused", err=True)


@click.command("resume")
@click.argument("name", shell_complete=stream_names)
@json_option
@debug_option
@server_of_context
def resume(server: Server, name: str, as_json: bool) -> None:
    """Go on with the paused stream NAME."""
    with server.open() as pipeline:
        found = pipeline.resume(name)
    print_json(found) if as_json else click.echo(f"{name} goes on", err=True)


@click.command("record")
@click.argument("stream", shell_complete=stream_names)
@click.option("--before", metavar="TIME", help="How much before now, such as 10s; else as the step says.")
@click.option("--after", metavar="TIME", help="How much after now; else as the step says.")
@click.option("--step", metavar="ID", shell_complete=element_names, help="One `record` step; else all of them.")
@debug_option
@server_of_context
def record(server: Server, stream: str, before: str | None, after: str | None, step: str | None) -> None:
    """Let the `record` steps write a clip of STREAM; an event `recording` names the file."""
    with server.open() as pipeline:
        pipeline.record(stream, before=before, after=after, step=step)


@click.command("snapshot")
@click.argument("stream", shell_complete=stream_names)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", required=True, help="`-` is standard output."
)
@overwrite_option
@debug_option
@server_of_context
def snapshot(server: Server, stream: str, output: Path, overwrite: bool) -> None:
    """Write the next frame of STREAM in full size into FILE, as JPEG."""
    file = WrittenFile("--output", output, overwrite=overwrite)
    if str(output) != STANDARD_OUTPUT:
        file.check()
    with server.open() as pipeline:
        jpeg = pipeline.snapshot(stream)
    if str(output) == STANDARD_OUTPUT:
        sys.stdout.buffer.write(jpeg)
        sys.stdout.buffer.flush()
    else:
        file.write(jpeg)


def source_text(source: Mapping[str, Any]) -> str:
    """Where a stream comes from, on one line."""
    known = next((source[name] for name in ("uri", "device", "path", "pattern") if name in source), source)
    return str(known)
