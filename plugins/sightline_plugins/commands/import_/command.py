"""`sightline import`: turn what another tool is configured with into a pipeline, and report every difference."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from sightline.cli.options import debug_option
from sightline.cli.written import WrittenFile

if TYPE_CHECKING:
    from sightline_plugins.deepstream_import.plan import Import

_MAX_FPS = 1000


@click.group(
    "import", short_help="Turn what DeepStream or GStreamer runs into a pipeline, with a report of differences."
)
def command() -> None:
    """Turn what another tool is configured with into a pipeline, and report what becomes of each setting."""


_Function = TypeVar("_Function", bound=Callable[..., None])


def _import_options(function: _Function) -> _Function:
    """Add the options that all imports take."""
    for option in reversed(
        (
            click.option(
                "-o",
                "--output",
                type=click.Path(path_type=Path, dir_okay=False),
                help="The file to write. Default: standard output.",
            ),
            click.option(
                "--report",
                type=click.Path(path_type=Path, dir_okay=False),
                help="Write the report: .md is Markdown, else JSON.",
            ),
            click.option("--compat", is_flag=True, help="Count and resize as DeepStream does, where that is possible."),
            click.option(
                "--fps",
                type=click.FloatRange(min=0, min_open=True, max=_MAX_FPS),
                default=30.0,
                show_default=True,
                help="Frame rate by which numbers of frames become times.",
            ),
            click.option("--store", "stores", is_flag=True, help="Put the models into the store, with model cards."),
            click.option("--overwrite", is_flag=True, help="Replace files that are there."),
            debug_option,
        )
    ):
        function = option(function)
    return function


@command.command("deepstream")
@click.argument("config", type=click.Path(path_type=Path))
@_import_options
def deepstream(
    config: Path, output: Path | None, report: Path | None, compat: bool, fps: float, stores: bool, overwrite: bool
) -> None:
    """Turn CONFIG into a pipeline: a configuration of deepstream-app or service-maker, or a file of nvinfer,
    nvinferserver or nvdsanalytics alone.

    Key files and YAML are read, with all files that they name: nvinfer, nvinferserver, nvdspreprocess, nvdsanalytics,
    trackers, brokers. The report names each key with file and line, and what becomes of it: taken over, taken over
    differently (and what that changes), without effect here, not possible (and what to do), or unknown.

    With -o the report is printed; without it the pipeline is, and the report goes to standard error. No password is
    written: the pipeline reads it from the environment. Nothing is written where the configuration cannot be read.

    What nvinfer's file says of a model becomes options of its step. With --store the models that are there are put into
    the store, as `sightline models add` does, and their cards hold it.
    """
    from sightline_plugins.deepstream_import.application import import_deepstream

    files = _files(output, report, overwrite=overwrite, reads={config: "the configuration"})
    imported = import_deepstream(config, folder=_folder(output), compat=compat, fps=fps)
    _finish(imported, files, source=str(config), stores=stores)


@command.command("gst")
@click.argument("line")
@_import_options
def gst(
    line: str, output: Path | None, report: Path | None, compat: bool, fps: float, stores: bool, overwrite: bool
) -> None:
    """Turn LINE, a `gst-launch-1.0` line of DeepStream or DL Streamer or a file with one, into a pipeline.

    Sources, models, trackers, rules, drawing, encoders and sinks become what they are in Sightline; queues, parsers,
    decoders and converters need no step. The report names each element and property, as for `import deepstream`.
    """
    from sightline_plugins.deepstream_import.gst_launch import COMMAND_LINE, import_gst
    from sightline_plugins.deepstream_import.source_text import is_file

    is_in_file = is_file(Path(line))
    reads = {Path(line): "the file with the line"} if is_in_file else {}
    files = _files(output, report, overwrite=overwrite, reads=reads)
    imported = import_gst(line, folder=_folder(output), compat=compat, fps=fps)
    source = line if is_in_file else f"a {COMMAND_LINE} line"
    _finish(imported, files, source=source, stores=stores)


def _folder(output: Path | None) -> Path:
    return Path() if output is None else output.parent


def _files(
    output: Path | None, report: Path | None, *, overwrite: bool, reads: Mapping[Path, str]
) -> tuple[WrittenFile | None, WrittenFile | None]:
    """The files to write, which may be written."""
    if output is not None and report is not None and os.path.realpath(output) == os.path.realpath(report):
        raise click.UsageError(f"--output and --report cannot both write to {report}.")
    made = [
        None
        if path is None
        else WrittenFile(option, path, overwrite=overwrite, reads=reads, is_edited=True, makes_folder=True)
        for option, path in (("--output", output), ("--report", report))
    ]
    for one in made:
        if one is not None:
            one.check()
    return made[0], made[1]


def _finish(
    imported: Import, files: tuple[WrittenFile | None, WrittenFile | None], *, source: str, stores: bool
) -> None:
    from sightline_plugins.deepstream_import.report import report_file, text_report
    from sightline_plugins.deepstream_import.storing import store_models
    from sightline_plugins.deepstream_import.writing import pipeline_text
    from sightline_plugins.store import Store

    stored = list(store_models(imported, Store())) if stores else []
    written, report = files
    output = None if written is None else written.path
    text = pipeline_text(imported, source=source, file=str(output or "pipeline.yaml"))
    if report is not None:
        report.write(report_file(report.path, imported, source=source))
    if written is not None:
        written.write(text)
    else:
        click.echo(text, nl=False)
    to_stderr = output is None
    for line in (*text_report(imported), *(["", *stored] if stored else ())):
        click.echo(line, err=to_stderr)
    if output is not None:
        counted = {"stream": len(imported.plan.sources), "step": sum(1 for _ in imported.plan.steps())}
        parts = (f"{number} {noun}{'' if number == 1 else 's'}" for noun, number in counted.items())
        click.echo(f"\n{output}: {', '.join(parts)}")
        for name in imported.variables:
            click.echo(f"  export {name}=...   credentials are not in the file")
        click.echo(f"  sightline check {output}\n  sightline run {output}")
