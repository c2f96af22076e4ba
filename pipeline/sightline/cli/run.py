"""`sightline run`: a pipeline from its file to its end."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sightline.cli.logs import log_to_stderr
from sightline.cli.options import DURATION, pipeline_options
from sightline.cli.serving import Serving, serving_options
from sightline.cli.written import STANDARD_OUTPUT, WrittenFile, files_read, overwrite_option

if TYPE_CHECKING:
    from sightline.cli.interrupts import Interrupts
    from sightline.graph.outputs import Outputs
    from sightline.graph.tree import PipelineDescription
    from sightline.pipeline import Pipeline
    from sightline.runtime.stats.report import Report

_FAILED, _INCOMPLETE, _INTERRUPTED = 1, 3, 130


@click.command("run")
@pipeline_options
@click.option("--frames", type=click.IntRange(min=1), metavar="N", help="Stop after N frames of each stream.")
@click.option("--duration", type=DURATION, metavar="TIME", help="Stop after that much of each stream, such as 30s.")
@click.option("--report", "report_path", metavar="FILE", help="Write the run report as JSON; - for standard output.")
@click.option(
    "--output-root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder that outputs are written below; the working directory when not given.",
)
@overwrite_option
@click.option(
    "--processes", metavar="N", help="Share the streams among N worker processes; auto: as many as pay. Default: 1."
)
@click.option("--fresh", is_flag=True, help="Begin to count anew, not with the state that the last run has saved.")
@click.option("--record", metavar="FILE", help="Record what goes in, for `sightline replay` and `inspect`: run.slr.")
@click.option("--watch", is_flag=True, help="Take changes of CONFIG over while it runs; SIGHUP does so at any time.")
@serving_options
@click.option("-q", "--quiet", is_flag=True, help="Say only what goes wrong.")
@click.option("-v", "--verbose", is_flag=True, help="Log what happens inside.")
def command(
    config: Path,
    sources: tuple[str, ...],
    overrides: tuple[str, ...],
    device: str | None,
    frames: int | None,
    duration: int | None,
    report_path: str | None,
    output_root: Path | None,
    overwrite: bool,
    processes: str | None,
    fresh: bool,
    record: str | None,
    watch: bool,
    quiet: bool,
    verbose: bool,
    **serving: Any,
) -> int:
    """Run the pipeline in CONFIG to the end of its sources, or until Ctrl-C.

    Progress and logs go to standard error. Ctrl-C finishes what is under way and closes the outputs; a second one
    stops at once. The exit code is 1 when a step or a stream failed or output was lost (3 when the step may be
    skipped), and 130 after Ctrl-C; SIGTERM finishes in the same
    way, with 0.
    """
    if frames is not None and duration is not None:
        raise click.UsageError("--frames and --duration cannot be given together.")
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose cannot be given together.")
    served = Serving(**serving)
    if overwrite:
        overrides = (*overrides, "overwrite=true")
    if processes is not None:
        overrides = (*overrides, f"processes.count={processes}")
    _check_report(report_path, overwrite=overwrite)
    if device is not None:
        _check_device(device)
    from sightline.cli.summary import summary
    from sightline.config import ConfigurationFile
    from sightline.errors import SightlineError
    from sightline.graph.advice import advice_of
    from sightline.graph.outputs import Outputs
    from sightline.pipeline import Pipeline
    from sightline.runtime.watchdog import watched

    log_to_stderr(logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO)
    root = None if output_root is None else output_root.absolute()
    outputs = Outputs(root)
    own = _own_files(outputs, report=report_path, record=record)
    for option, path in own.items():
        outputs.protect(path, f"what {option} writes")
    file = ConfigurationFile(config, sources=sources, overrides=overrides, device=device, outputs=outputs)
    pipeline = Pipeline.from_file(file, outputs=root)
    _check_beside(own, pipeline.description, config=config, report=report_path)
    reload = partial(pipeline.reload, by=str(config))
    if not quiet:
        for text in advice_of(pipeline.description):
            click.echo(f"note: {text}", err=True)
    try:
        with (
            served.serve(pipeline, quiet=quiet),
            watched(config if watch else None, on_change=reload),
        ):
            report, interrupted = run_to_end(
                pipeline, reload, frames=frames, duration_ns=duration, fresh=fresh, record=record, quiet=quiet
            )
    except SightlineError:
        _write(pipeline.report, report_path)
        raise
    if report is not None and not quiet:
        click.echo(summary(report.to_json()), err=True)
    _write(pipeline.report, report_path)
    return exit_code(report, pipeline, interrupted=interrupted)


def exit_code(report: Report | None, pipeline: Pipeline, *, interrupted: bool) -> int:
    """Return the exit code after a run that raised nothing."""
    if interrupted:
        return _INTERRUPTED
    return _FAILED if report is None or report.failed_streams else _code_of_outputs(report, pipeline)


def _code_of_outputs(report: Report, pipeline: Pipeline) -> int:
    """Return the exit code for outputs that are not whole: another one where every step may be skipped."""
    policies = {name: element.on_error for name, element in pipeline.description.elements()}
    lost = {policies.get(name, "stop") for name in report.lost_outputs}
    return 0 if not lost else _INCOMPLETE if lost == {"skip"} else _FAILED


def _check_device(name: str) -> None:
    """Refuse at once what is not there: to read the file and load its elements first takes most of a second."""
    from sightline.devices import choose_device
    from sightline.errors import DeviceUnavailable

    try:
        choose_device(name)
    except DeviceUnavailable as error:
        raise DeviceUnavailable(f"--device: {error}") from error


def run_to_end(
    pipeline: Pipeline,
    reload: Callable[[], object],
    *,
    frames: int | None = None,
    duration_ns: int | None = None,
    fresh: bool = False,
    record: str | None = None,
    quiet: bool,
) -> tuple[Report | None, bool]:
    """Run with progress; return the report (None when no stream could be read), and whether it was interrupted."""
    from sightline.cli.interrupts import interrupts
    from sightline.cli.progress import Progress
    from sightline.errors import StreamError

    progress = Progress(pipeline.status, deliveries=pipeline.deliveries, quiet=quiet)
    pipeline.on_message(progress.tell)
    with interrupts(pipeline, say=progress.say, reload=reload) as caught:
        try:
            with progress:
                pipeline.start(frames=frames, duration_ns=duration_ns, fresh=fresh, record=record)
                if caught.count:
                    pipeline.stop()
                return pipeline.wait(), _is_interrupted(caught)
        except StreamError:  # each stream's own failure was reported when it happened
            return None, _is_interrupted(caught)


def _is_interrupted(caught: Interrupts) -> bool:
    """Whether signals cut the run short; a SIGTERM asks for its regular end, as orchestrators do."""
    return bool(caught.count) and not caught.is_termination


def _own_files(outputs: Outputs, *, report: str | None, record: str | None) -> dict[str, Path]:
    """Return the files that the options name, by option. Two options cannot name one."""
    from sightline.errors import OutputError

    files: dict[str, Path] = {}
    if report is not None and report != "-":
        files["--report"] = Path(report).absolute()
    if record is not None:
        try:
            files["--record"] = outputs.path(record)
        except OutputError as error:
            raise click.BadParameter(f"{error}.", param_hint="--record") from error
    if len(files) > len({os.path.realpath(path) for path in files.values()}):
        raise click.UsageError(f"--report and --record cannot both write to {report}.")
    return files


def _check_report(path: str | None, *, overwrite: bool) -> None:
    if path is not None and path != STANDARD_OUTPUT:
        WrittenFile("--report", Path(path), overwrite=overwrite).check()


def _check_beside(
    files: Mapping[str, Path], description: PipelineDescription, *, config: Path, report: str | None
) -> None:
    """Refuse files that the pipeline reads (not even `--overwrite` means them), and a report on standard output beside
    what a step writes there.
    """
    from sightline.config.checks import placed, standard_output_of

    read = files_read(description, config=config)
    for option, path in files.items():
        WrittenFile(option, path, overwrite=description.overwrite, reads=read, makes_folder=True).check()
    writing = [element for _, element, _ in standard_output_of(placed(description.steps))]
    if report == STANDARD_OUTPUT and writing:
        raise click.UsageError(
            f"--report - would stand in what a step `{writing[0].name}` writes to standard output: name a file."
        )


def _write(report: Report | None, path: str | None) -> None:
    """Write the report where it is wanted; there is one also of a run that failed, once it had begun."""
    if report is None or path is None:
        return
    text = json.dumps(report.to_json(), indent=2)
    if path == STANDARD_OUTPUT:
        click.echo(text)
    else:
        WrittenFile("--report", Path(path)).write(text + "\n")
