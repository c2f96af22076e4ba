"""`sightline demo`: a folder with everything to try things with, and its pipeline run once."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from sightline.cli.options import debug_option
from sightline.cli.run import command as run
from sightline.cli.text import columns

NEXT = (
    ("sightline check demo.yaml", "edit demo.yaml, then list its mistakes"),
    ("sightline bench demo.yaml", "measure how fast this machine runs it, and what limits it"),
    ("sightline elements detect", "explain a step: options, units, defaults, an example"),
)
"""Commands to go on with, in the folder of the demo, and what each does."""


@click.command("demo", short_help="Write sample clips, models and a pipeline into a folder, and run it.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("sightline-demo"))
@click.option("--device", metavar="DEVICE", help="Where to run: auto, cpu, cuda (all GPUs) or cuda:N.")
@debug_option
@click.pass_context
def command(context: click.Context, folder: Path, device: str | None) -> int:
    """Write the demo into FOLDER (`sightline-demo` by default) and run it.

    FOLDER gets `demo.yaml` with its comments, two clips in `sample_videos/` and the sample models in `models/`, so that
    the examples of the documentation run there as they are; results go to `out/demo/` in it. Nothing is downloaded. A
    file that is not the demo's own, or that was changed, is not replaced: the command then writes and runs nothing.
    The exit codes are those of `sightline run`.
    """
    from sightline_plugins.commands.demo.files import PIPELINE, write_demo

    write_demo(folder)
    code: int = context.invoke(run, config=folder / PIPELINE, device=device, output_root=folder)
    if code == 0:
        first = (f"cd {shlex.quote(str(folder))}", "the demo's folder: its pipeline, clips, models and results")
        click.echo(f"next\n{columns((first, *NEXT), indent='  ')}", err=True)
    return code
