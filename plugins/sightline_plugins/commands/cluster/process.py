"""The process that runs a worker's pipeline, and its lock: `python -m sightline_plugins.commands.cluster.process`.

What the pipeline is, the controller orders. The process belongs to no process of Ray: Ray ends those of a machine when
it loses its head, and cameras must go on then. It holds the lock of its folder as long as it lives, so that each
machine has one.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

import msgspec

from sightline.cluster.agent import WorkerAgent, WorkerFacts
from sightline.cluster.configured import WorkerPipeline
from sightline.cluster.lease import WorkerLease
from sightline.cluster.model import ClusterConfiguration
from sightline.cluster.reporting import ControllerLink
from sightline.cluster.transfer import HeadFiles
from sightline.cluster.wire import Presence, token_from_environment
from sightline.config import description_from
from sightline.errors import SightlineError
from sightline.graph import Outputs
from sightline.graph.site import SystemClock
from sightline.pipeline import Pipeline
from sightline_plugins.commands.cluster.job import Job, Machine, check_files, version_of_sightline
from sightline_plugins.commands.cluster.models import models_folder, with_local_models

_LOG = logging.getLogger(__name__)
_LOCK = "sightline-cluster-worker.lock"
_ENDED, _FAILED = 0, 1


class Holder(NamedTuple):
    """Which process runs the worker of a folder, and what."""

    pid: int
    fingerprint: str


def holder_of(outputs: Path) -> Holder | None:
    """The process that has the lock of a folder now; None when nobody has."""
    try:
        with (outputs / _LOCK).open("r+", encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid, _, fingerprint = file.read().partition(" ")
                return Holder(int(pid or 0), fingerprint.strip())
            return None
    except FileNotFoundError:
        return None


def run(job: Job, machine: Machine) -> int:
    """Run the worker of a machine until a signal, until its pipeline has ended, or until that has to start again in a
    new process. Raises SightlineError.
    """
    outputs, clock = Path(machine.outputs), SystemClock()
    asked: list[int] = []
    head = HeadFiles((job.host, job.port), token_from_environment(), is_ending=lambda: bool(asked))
    pipeline = WorkerPipeline(lambda configuration: _made(configuration, outputs=outputs, head=head))
    facts = WorkerFacts(machine.capacity, machine.limit, machine.labels, version_of_sightline())
    link = ControllerLink(
        (job.host, job.port),
        token=token_from_environment(),
        timeout_seconds=job.heartbeat_ns / 1e9,
        presence=Presence(machine.address),
        on_wake=lambda: agent.wake(),
    )
    lease = WorkerLease(machine.name, secrets.token_hex(8), clock=clock)
    agent = WorkerAgent(lease, pipeline, facts=facts, engine=link, options=job.options, clock=clock)

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        asked.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    agent.start()
    _LOG.info("the worker %s waits for its configuration", machine.name)
    while not asked and not agent.wait(0.5):
        pass
    agent.stop()
    pipeline.end()
    return _ENDED if asked or pipeline.must_restart else _FAILED


def _made(configuration: ClusterConfiguration, *, outputs: Path, head: HeadFiles) -> Pipeline:
    """The pipeline of a configuration. Raises SightlineError where it cannot run here."""
    check_files(configuration)
    pipeline = with_local_models(configuration, folder=models_folder(outputs), head=head)
    description = description_from(pipeline, outputs=Outputs(outputs))
    return Pipeline.from_description(description, outputs=outputs)


def main() -> None:
    """Detach from who has started this, take the lock, and run what standard input holds: job and machine."""
    job, machine = msgspec.json.decode(sys.stdin.buffer.read(), type=tuple[Job, Machine])
    if os.fork():
        os._exit(0)
    os.setsid()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    lock = _locked(Path(machine.outputs), job.fingerprint)
    try:
        code = run(job, machine)
    except SightlineError as error:
        _LOG.error("the worker %s has ended: %s", machine.name, error)
        code = _FAILED
    lock.flush()
    sys.exit(code)


def _locked(outputs: Path, fingerprint: str) -> IO[str]:
    outputs.mkdir(parents=True, exist_ok=True)
    file = (outputs / _LOCK).open("a+", encoding="ascii")
    fcntl.flock(file, fcntl.LOCK_EX)
    file.truncate(0)
    file.write(f"{os.getpid()} {fingerprint}\n")
    file.flush()
    return file


if __name__ == "__main__":
    main()
