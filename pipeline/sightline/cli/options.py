"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Debug:
    """Whether `--debug` was given: then tracebacks are shown."""

    wanted = False


DEBUG = _Debug()


def _note_debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del ctx, param
    DEBUG.wanted = value


class DurationType(click.ParamType[int]):
    """A duration such as `30s`, as nanoseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Nanoseconds; a bare number is seconds."""
        from sightline.media.time import parse_duration_ns

        try:
            text = str(value)
            duration_ns = parse_duration_ns(float(text) if text.replace(".", "", 1).isdigit() else text)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if duration_ns == 0:
            self.fail(f"{text!r} is no time at all", param, ctx)
        return duration_ns


DURATION = DurationType()

debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_note_debug,
    help="Show tracebacks of errors.",
)


def _devices_that_begin(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return what a shell may complete."""
    del ctx, param
    return [name for name in ("auto", "cpu", "cuda", "cuda:0") if name.startswith(incomplete)]


def pipeline_options(function: _Function) -> _Function:
    """What every command takes that reads a pipeline: the file, and the changes to it."""
    options = (
        click.argument("config", type=click.Path(path_type=Path)),
        click.option(
            "--source",
            "sources",
            multiple=True,
            metavar="NAME=URI",
            help="Replace a stream's source, or add a stream; - alone: standard input. Repeat for more.",
        ),
        click.option(
            "--set",
            "overrides",
            multiple=True,
            metavar="KEY.PATH=VALUE",
            help="Change a value, such as pipeline.detect.confidence=0.5. Repeat for more.",
        ),
        click.option(
            "--device",
            metavar="DEVICE",
            shell_complete=_devices_that_begin,
            help="Where to run: auto, cpu, cuda (all GPUs) or cuda:N.",
        ),
        debug_option,
    )
    for option in reversed(options):
        function = option(function)
    return function
