"""`sightline cluster`: one pipeline on many machines."""

from __future__ import annotations

import logging
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from sightline.cli.options import debug_option, pipeline_options

if TYPE_CHECKING:
    from sightline.config import ConfigurationFile
    from sightline.graph.outputs import Outputs
    from sightline_plugins.commands.cluster.charter import Charter
    from sightline_plugins.commands.cluster.job import Machine
    from sightline_plugins.commands.cluster.supervision import ControllerSupervisor

PORT, RAY_PORT = 6380, 6379
_AGAIN_SECONDS = 1.0
_ANSWER_SECONDS = 10.0
_END_SECONDS = 60.0
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,64}")


@click.group("cluster", short_help="Run a pipeline on many machines.")
def command() -> None:
    """Spread the streams of a pipeline over machines: they come back elsewhere when one is lost.

    One machine is the head (`cluster run`), the others are workers (`cluster worker`). All need the same version of
    Sightline with the extra `cluster`, clocks that agree, and the same secret in SIGHTLINE_CLUSTER_TOKEN. Models come
    from the head. The network between the machines has to be a private one.
    """


def _machine_options(without: str) -> Callable[[Any], Any]:
    """Options of a machine that runs streams; `without` says what one without a capacity does."""

    def add(function: Any) -> Any:
        for option in (
            click.option("--name", help="The name of the worker. Default: the address."),
            click.option(
                "--capacity",
                type=click.FloatRange(min=0, min_open=True),
                metavar="FPS",
                help=f"Frames a second that this machine can analyse. Without it and --plan, {without}.",
            ),
            click.option(
                "--plan",
                type=click.Path(path_type=Path, exists=True, dir_okay=False),
                help="What `sightline plan CONFIG --json` printed on such a machine: its capacity.",
            ),
            click.option("--limit", type=click.IntRange(min=1), default=1_000_000, help="Most streams at a time."),
            click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Such as site=north."),
            click.option(
                "--output-root",
                type=click.Path(path_type=Path, file_okay=False),
                default=Path(),
                help="Folder that the worker writes in; the working directory when not given.",
            ),
            click.option(
                "--ray-folder",
                type=click.Path(path_type=Path, file_okay=False),
                help="Folder for Ray's logs and sockets, of this machine alone. Default: /tmp/ray-ADDRESS.",
            ),
        ):
            function = option(function)
        return function

    return add


@command.command("run")
@pipeline_options
@click.option("--watch", is_flag=True, help="Take changes of CONFIG over while it runs; SIGHUP does so at any time.")
@click.option("--address", required=True, metavar="IP", help="Address of this machine that the others reach.")
@click.option("--port", type=click.IntRange(1, 65535), default=PORT, show_default=True, help="Of the controller.")
@click.option("--ray-port", type=click.IntRange(1, 65535), default=RAY_PORT, show_default=True, help="Of Ray.")
@_machine_options("the head runs no streams")
def run(
    config: Path,
    sources: tuple[str, ...],
    overrides: tuple[str, ...],
    device: str | None,
    watch: bool,
    address: str,
    port: int,
    ray_port: int,
    name: str | None,
    capacity: float | None,
    plan: Path | None,
    limit: int,
    labels: tuple[str, ...],
    output_root: Path,
    ray_folder: Path | None,
) -> int:
    """Be the head: place the streams of CONFIG on the machines that join.

    A changed CONFIG is checked as a whole. Streams come and go at once; changed steps go to one worker after the other,
    each on probation, and back from all of them when one cannot run them. See `cluster status`.

    Events go to standard error, and as JSON to a file beside that of the state. When the head is killed, workers go on;
    start it again with the same CONFIG. Ctrl-C and SIGTERM do the same: workers go on until `cluster worker` ends.
    """
    from sightline.cli.logs import log_to_stderr
    from sightline.cluster.wire import token_from_environment
    from sightline.config import ConfigurationFile
    from sightline.graph.outputs import Outputs
    from sightline_plugins.commands.cluster.charter import Charter
    from sightline_plugins.commands.cluster.supervision import ControllerSupervisor
    from sightline_plugins.commands.cluster.with_ray import RayHead, prepare

    token_from_environment()
    log_to_stderr(logging.INFO)
    outputs = Outputs(output_root.absolute())
    file = ConfigurationFile(config, sources=sources, overrides=overrides, device=device, outputs=outputs)
    description = file.read()
    charter = Charter.of(description, address=(address, port), outputs=outputs)
    machine = None
    if (proved := _capacity(capacity, plan)) is not None:
        machine = _machine(name or address, address, proved, limit, labels, output_root)
    prepare(machine)
    listed = None if description.sources_file is None else description.sources_file.path
    events = _Follower(Path(f"{charter.store}.events.jsonl"))
    with ExitStack() as stack:
        ending = stack.enter_context(_interrupted())
        changed = stack.enter_context(_changed(*((config, listed) if watch else ())))
        supervisor = ControllerSupervisor(charter)
        stack.callback(supervisor.stop)
        supervisor.start()
        click.echo(f"the controller listens at {address}:{port}", err=True)
        head = RayHead(address, port=ray_port, folder=ray_folder, machine=machine)
        stack.callback(head.close)
        while not ending.wait(_AGAIN_SECONDS):
            if changed.is_set():
                changed.clear()
                charter = _follow(file, charter, supervisor=supervisor, outputs=outputs)
            head.keep_workers(charter.job)
            events.print()
    events.print()
    return 0


@command.command("worker")
@click.option("--head", required=True, metavar="IP[:PORT]", help=f"Address of the head's Ray. Port: {RAY_PORT}.")
@click.option("--address", required=True, metavar="IP", help="Address of this machine that the head reaches.")
@_machine_options("the command ends")
@debug_option
def worker(
    head: str,
    address: str,
    name: str | None,
    capacity: float | None,
    plan: Path | None,
    limit: int,
    labels: tuple[str, ...],
    output_root: Path,
    ray_folder: Path | None,
) -> int:
    """Be a worker: join the head, again when it was lost, and run the streams that it places here.

    The streams go on while the head is away. They end with this command (Ctrl-C or SIGTERM); kill it, and they go on.
    """
    from sightline.cli.logs import log_to_stderr
    from sightline.cluster.wire import token_from_environment
    from sightline.runtime.processes.restarts import Backoff
    from sightline_plugins.commands.cluster.keeper import end_worker
    from sightline_plugins.commands.cluster.with_ray import RayNode, prepare

    token_from_environment()
    log_to_stderr(logging.INFO)
    proved = _capacity(capacity, plan)
    if proved is None:
        raise click.UsageError(
            "give --capacity FPS, or --plan FILE with what `sightline plan CONFIG --json` has measured here."
        )
    machine = _machine(name or address, address, proved, limit, labels, output_root)
    host, port = _address(head, RAY_PORT)
    prepare(machine)
    backoff = Backoff()
    with _interrupted() as ending:
        while not ending.is_set():
            if not _listens(host, port):
                ending.wait(_AGAIN_SECONDS)
                continue
            click.echo(f"joining {host}:{port}", err=True)
            begun = time.monotonic()
            node = RayNode((host, port), address, folder=ray_folder, machine=machine)
            while node.goes_on() and not ending.wait(_AGAIN_SECONDS / 4):
                pass
            node.leave()
            if not ending.is_set():
                click.echo(f"this machine does not take part any more: see {machine.outputs}/ray.log", err=True)
                ending.wait(backoff.fail(ran_seconds=time.monotonic() - begun))
    if not end_worker(Path(machine.outputs), timeout_seconds=_END_SECONDS):
        raise click.ClickException(f"the worker {machine.name} does not end")
    return 0


@command.command("status")
@click.option("--controller", required=True, metavar="IP[:PORT]", help=f"Address of the controller. Port: {PORT}.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@debug_option
def status(controller: str, as_json: bool) -> None:
    """Show workers, their load and streams with epochs, what moves or waits and why, how far a roll-out has come, and
    the last events.
    """
    import json

    from sightline_plugins.commands.cluster.text import status_text

    answer = _ask(controller, {"ask": "status"})
    click.echo(json.dumps(answer, indent=2) if as_json else status_text(answer))


@command.command("drain")
@click.argument("name")
@click.option("--controller", required=True, metavar="IP[:PORT]", help=f"Address of the controller. Port: {PORT}.")
@click.option("--undo", is_flag=True, help="Let it have streams again.")
@debug_option
def drain(name: str, controller: str, undo: bool) -> None:
    """Move all streams off the worker NAME before maintenance, some at a time."""
    _ask(controller, {"ask": "drain", "worker": name, "draining": not undo})


@command.command("retry")
@click.option("--controller", required=True, metavar="IP[:PORT]", help=f"Address of the controller. Port: {PORT}.")
@debug_option
def retry(controller: str) -> None:
    """Try the configuration again that was rolled back, and on workers that could not run theirs."""
    _ask(controller, {"ask": "retry"})


@command.command("stop")
@click.option(
    "--output-root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="Folder that the worker writes in; the working directory when not given.",
)
@debug_option
def stop(output_root: Path) -> None:
    """End the worker that was left on this machine, such as that of the head after Ctrl-C.

    `cluster worker` and `cluster run` start it again as long as they run here: end these first.
    """
    from sightline_plugins.commands.cluster.keeper import end_worker
    from sightline_plugins.commands.cluster.process import holder_of

    outputs = output_root.absolute()
    if holder_of(outputs) is None:
        raise click.ClickException(f"no worker of {outputs} runs: give its --output-root")
    if not end_worker(outputs, timeout_seconds=_END_SECONDS):
        raise click.ClickException(f"the worker of {outputs} does not end")


class _Follower:
    """Prints events that the controller appends to its file from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.is_file() else 0

    def print(self) -> None:
        """Print what is new; a part of a line waits for its rest."""
        import json

        from sightline.redaction import redact

        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                click.echo(redact(json.loads(line)["text"]), err=True)


@contextmanager
def _interrupted() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set."""
    ending = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        ending.set()

    before = {one: signal.signal(one, end) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ending
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def _changed(*watched_files: Path | None) -> Iterator[threading.Event]:
    """Yield an event that SIGHUP sets, and a change of a file."""
    from sightline.runtime.watchdog import watched

    changed = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        changed.set()

    before = signal.signal(signal.SIGHUP, note)
    try:
        with ExitStack() as stack:
            for path in watched_files:
                stack.enter_context(watched(path, on_change=changed.set))
            yield changed
    finally:
        signal.signal(signal.SIGHUP, before)


def _follow(
    file: ConfigurationFile, charter: Charter, *, supervisor: ControllerSupervisor, outputs: Outputs
) -> Charter:
    """Give the controller what the file holds now; return its charter. A mistake is reported, and changes nothing."""
    from sightline.errors import SightlineError
    from sightline.redaction import redact
    from sightline_plugins.commands.cluster.charter import Charter

    try:
        later = Charter.of(file.read(), address=(charter.host, charter.port), outputs=outputs)
        charter.check_successor(later)
    except SightlineError as error:
        click.echo(f"the change is refused, and everything goes on as it was: {redact(error)}", err=True)
        return charter
    if later == charter:
        click.echo("nothing has changed", err=True)
        return charter
    supervisor.want(later)
    return later


def _capacity(fps: float | None, plan: Path | None) -> float | None:
    """Frames a second that this machine can analyse; None when nothing is given. Raises a usage error for both."""
    from sightline_plugins.commands.cluster.job import capacity_of

    if fps is not None and plan is not None:
        raise click.UsageError("give --capacity or --plan, not both.")
    return fps if plan is None else capacity_of(plan)


def _machine(name: str, address: str, capacity: float, limit: int, labels: tuple[str, ...], outputs: Path) -> Machine:
    """What the options say of this machine. Raises a usage error."""
    from sightline_plugins.commands.cluster.job import Machine

    if not _NAME.fullmatch(name):
        raise click.BadParameter(
            "a name has letters, digits, dots, colons, dashes and underscores.", param_hint="--name"
        )
    found = {}
    for label in labels:
        key, is_given, value = label.partition("=")
        if not (key and is_given and value):
            raise click.BadParameter(f"{label!r}: give NAME=VALUE, such as site=north.", param_hint="--label")
        found[key] = value
    return Machine(name, address, capacity, limit, found, str(outputs.absolute()))


def _address(text: str, port: int) -> tuple[str, int]:
    """Host and port; the port when none is given. Raises a usage error."""
    from sightline.errors import ConfigurationError
    from sightline.server.address import Address

    is_whole = ":" in text and not text.endswith("]")
    try:
        found = Address.parse(text if is_whole else f"{text}:{port}")
    except ConfigurationError as error:
        raise click.BadParameter(f"{text!r} is no address: give IP or IP:PORT.") from error
    if not found.host:
        raise click.BadParameter(f"{text!r} names no machine: give IP or IP:PORT.")
    return found.host, found.port


def _listens(host: str, port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        socket.create_connection((host, port), timeout=_AGAIN_SECONDS).close()
    except OSError:
        return False
    return True


def _ask(controller: str, message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask a controller. Raises ConfigurationError when it is not there, refuses the token, or says no."""
    from sightline.cluster.wire import Connection, token_from_environment
    from sightline.errors import ConfigurationError

    token, (host, port) = token_from_environment(), _address(controller, PORT)
    try:
        connection = Connection.to_controller((host, port), token=token, timeout_seconds=_ANSWER_SECONDS)
        connection.send(message)
        answer = connection.receive(timeout_seconds=_ANSWER_SECONDS)
        connection.close()
    except ConnectionRefusedError as error:
        raise ConfigurationError(f"no controller runs at {host}:{port}: start `sightline cluster run` there") from error
    except OSError as error:
        raise ConfigurationError(f"the controller at {host}:{port} gives no answer: {error}") from error
    if "error" in answer:
        raise ConfigurationError(answer["error"])
    return answer
