"""`sightline ctl`: see and steer a running pipeline from the shell."""

from __future__ import annotations

from pathlib import Path

import click

from sightline.cli.ctl import configuration, events, history, steps, streams
from sightline.cli.ctl.shared import Server


@click.group("ctl")
@click.option("--url", metavar="URL", help="Where the server is; else SIGHTLINE_URL, else http://127.0.0.1:8080.")
@click.option("--token", metavar="TOKEN", help="The token. Prefer SIGHTLINE_TOKEN: others see command lines.")
@click.option("--pipeline", metavar="NAME", help="Which pipeline, when the server has several.")
@click.option("--ca-file", type=click.Path(path_type=Path), metavar="FILE", help="Certificates to trust (PEM).")
@click.pass_context
def command(
    context: click.Context, url: str | None, token: str | None, pipeline: str | None, ca_file: Path | None
) -> None:
    r"""See and steer a pipeline that runs with `--listen`.

    A token is needed, from `sightline token add NAME --role ROLE`, in SIGHTLINE_TOKEN: a `viewer` may look, an
    `operator` may edit rules, reset counts, pause, record and take snapshots, an `admin` may change streams, steps and
    configuration.

    \b
    $ export SIGHTLINE_TOKEN=$(sightline token add me --role admin)
    $ sightline ctl streams
    $ sightline ctl add gate rtsp://192.168.1.20/main
    $ sightline ctl rule zones-1/plaza '{"polygon": [[0.2, 0.4], [0.8, 0.4], [0.8, 0.9]]}'
    $ sightline ctl config > now.yaml

    A change is applied between two batches. With `--prove`, the command waits for that time, and fails when the change
    was taken back because the pipeline was not well. The exit code is 2 when what was asked is wrong, and 1 when it
    was refused or failed.
    """
    context.obj = Server(url, token, pipeline, ca_file)


for _one in (
    steps.show,
    streams.streams,
    streams.add,
    streams.test,
    streams.remove,
    streams.pause,
    streams.resume,
    steps.rules,
    steps.rule,
    steps.reset,
    steps.change,
    configuration.config,
    configuration.apply,
    configuration.rollback,
    configuration.versions,
    configuration.save,
    streams.record,
    streams.snapshot,
    events.events,
    history.history,
):
    command.add_command(_one)
