"""`sightline serve`: several pipelines in one server."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sightline.cli.options import DURATION, debug_option
from sightline.cli.serving import access_options, policy_of, show
from sightline.cli.written import overwrite_option

if TYPE_CHECKING:
    from sightline.graph import Message
    from sightline.server.policy import Policy
    from sightline.server.supervisor.supervisor import Supervisor

_KILLED, _INTERRUPTED = 1, 130
_NS = 1e9


class SizeType(click.ParamType[int]):
    """A size such as `500MB`, as bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes."""
        from sightline.graph.fields import parse_size

        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("serve")
@click.argument("places", metavar="DIR_OR_FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--listen",
    "address",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="ADDRESS",
    help="Serve page, metrics and API there.",
)
@access_options
@click.option("--device", metavar="DEVICE", help="Where all run: auto, cpu, cuda (all GPUs) or cuda:N.")
@click.option(
    "--output-root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder that outputs are written below; the working directory when not given.",
)
@overwrite_option
@click.option(
    "--memory-limit",
    type=SizeType(),
    metavar="SIZE",
    help="Start a pipeline again whose process holds more memory, such as 2GB.",
)
@click.option(
    "--hang-timeout",
    type=DURATION,
    default="30s",
    show_default=True,
    metavar="TIME",
    help="Kill and start again a pipeline whose process gives no answer for so long.",
)
@click.option(
    "--end-timeout",
    type=DURATION,
    default="20s",
    show_default=True,
    metavar="TIME",
    help="Kill a pipeline that takes longer to close its outputs.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log what happens inside the pipelines.")
@debug_option
def command(
    places: tuple[Path, ...],
    address: str,
    token: str | None,
    certificate: Path | None,
    key: Path | None,
    device: str | None,
    output_root: Path | None,
    overwrite: bool,
    memory_limit: int | None,
    hang_timeout: int,
    end_timeout: int,
    verbose: bool,
    **allowed: Any,
) -> int:
    """Run the pipelines of YAML files, and of every *.yaml in folders, until Ctrl-C or SIGTERM.

    Each has a process of its own, so that one that crashes, hangs or leaks does not touch the others. It is started
    again after 1, 2, 4 ... 60 seconds; a pipeline of files that has come to its end is not. One page, API and address
    for metrics has them all; the name of a pipeline is that of its file. Files that come to a folder, change or go are
    followed.

    Lines of a pipeline on standard error begin with its name. The first Ctrl-C closes all outputs, a second one kills.
    """
    if (certificate is None) != (key is None):
        raise click.UsageError("--certificate and --key go together.")
    from sightline.server import Certificate
    from sightline.server.application import open_listener
    from sightline.server.journal import Journal
    from sightline.server.supervisor.front import front_of
    from sightline.server.supervisor.supervised import WorkerOptions
    from sightline.server.supervisor.supervisor import Supervisor

    policy = policy_of(**allowed)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    options = WorkerOptions(
        command=_worker(policy, device=device, output_root=output_root, overwrite=overwrite, verbose=verbose),
        environment={**os.environ, "PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"},
        memory_limit=memory_limit,
        hang_timeout=hang_timeout / _NS,
        end_timeout=end_timeout / _NS,
    )
    journal = Journal()

    def post(name: str, message: Message) -> None:
        journal.note(replace(message, text=f"{name}: {message.text}"))
        click.echo(f"{name}: {message.text}", err=True)

    supervisor = Supervisor(places, options, post=post, say=lambda name, line: click.echo(f"{name} | {line}", err=True))
    files = None if certificate is None or key is None else Certificate(certificate, key)
    application = front_of(supervisor, journal)
    with open_listener(lambda: (application, None), address, token=token, certificate=files) as listener:
        show(listener)
        return asyncio.run(_run(supervisor))


def _worker(
    policy: Policy, *, device: str | None, output_root: Path | None, overwrite: bool, verbose: bool
) -> tuple[str, ...]:
    """Return the command of a worker, without its file."""
    options = ["--policy", policy.model_dump_json()]
    options += [] if device is None else ["--device", device]
    options += [] if output_root is None else ["--output-root", str(output_root.absolute())]
    options += ["--overwrite"] if overwrite else []
    options += ["--verbose"] if verbose else []
    return (sys.executable, "-m", "sightline.cli.worker", *options)


async def _run(supervisor: Supervisor) -> int:
    """Supervise until a signal ends it; return the exit code."""
    caught: list[int] = []

    def end(number: int) -> None:
        caught.append(number)
        if len(caught) == 1:
            click.echo("stopping: closing the outputs of all pipelines (again to kill them)", err=True)
            supervisor.stop()
        else:
            click.echo("killing all pipelines", err=True)
            supervisor.abort()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    await supervisor.run()
    return _KILLED if len(caught) > 1 else _INTERRUPTED if caught == [signal.SIGINT] else 0
