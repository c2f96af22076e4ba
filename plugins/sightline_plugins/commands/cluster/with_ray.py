"""What Ray does for a cluster: it joins machines, and runs a keeper on each of them.

Neither heartbeats nor the controller need it (decisions 92 and 96). Its processes end with its head, its calls prove
nothing about who is gone, and a machine that lost its head needs many seconds to join the next one. All that costs no
frame here.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sightline.cluster.wire import token_from_environment
from sightline.errors import ConfigurationError, MissingExtra
from sightline_plugins.commands.cluster.job import MACHINE_VARIABLE, Job, Machine
from sightline_plugins.commands.cluster.keeper import WorkerKeeper

_LOG = logging.getLogger(__name__)
_NAMESPACE = "sightline"
_WORKER = "sightline_worker"
_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # a keeper that ends leaves the streams alone
    "RAY_worker_niceness": "0",  # Ray's default of 15 is inherited by the process that runs the streams
}
_LISTEN_PORT = "dashboard-agent-listen-port"
_PORTS = ("metrics-export-port", "dashboard-agent-grpc-port", "runtime-env-agent-port", _LISTEN_PORT)
_DEAD_GLANCES = 8
_END_SECONDS = 5.0
_FOLDER_LENGTH = 24
_OBJECT_STORE_BYTES = 80_000_000
"""The least that Ray takes: nothing is kept there."""


class KeeperProgram:
    """What Ray runs on each machine of a cluster."""

    def __init__(self, job: str) -> None:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._machine = Machine.of_this_process()
        WorkerKeeper(Job.from_json(job), self._machine).start()

    def ready(self) -> str:
        """Return the name of the machine's worker."""
        return self._machine.name


class RayHead:
    """The head of Ray in this process, with a keeper on each machine.

    Ray's own processes end with this one, however it ends.
    """

    def __init__(self, address: str, *, port: int, folder: Path | None, machine: Machine | None) -> None:
        """Start Ray at an address of this machine. `folder` is where Ray writes, see `folder_for`; `machine` makes this
        one a worker, too. Raises ConfigurationError.
        """
        os.environ["RAY_GCS_SERVER_PORT"] = str(port)
        self._ray: Any = import_module("ray")  # it reads the environment here
        handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._ray.init(
                address="local",
                namespace=_NAMESPACE,
                num_cpus=1,
                num_gpus=0,
                resources={} if machine is None else {_WORKER: 1.0},
                object_store_memory=_OBJECT_STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.WARNING,
                _node_ip_address=address,
                _temp_dir=str(folder or folder_for(address)),
            )
        except Exception as error:  # the boundary to Ray, which raises plain exceptions
            raise ConfigurationError(f"Ray does not start at {address}:{port}: {error}") from error
        for number, handler in handlers.items():  # Ray has set its own, which end the process at once
            signal.signal(number, handler)
        self._keepers: dict[str, Any] = {}

    def keep_workers(self, job: Job) -> None:
        """Let a keeper run on each machine that is there now; to be called again and again."""
        ray = self._ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get(_WORKER)}
        self._keepers = {node: keeper for node, keeper in self._keepers.items() if node in alive}
        for node in alive - self._keepers.keys():
            place = NodeAffinitySchedulingStrategy(node, soft=False)
            made = ray.remote(KeeperProgram).options(num_cpus=0, max_restarts=-1, scheduling_strategy=place)
            self._keepers[node] = made.remote(job.to_json())
            _LOG.info("the machine %s takes part", node[:8])

    def close(self) -> None:
        """End Ray here; workers go on."""
        self._ray.shutdown()


def folder_for(address: str) -> Path:
    """Where Ray writes when nothing else is given: short, because it has sockets there, and of this address alone.
    Of two that start in one folder at once, one ends, because both take the same name for a socket.
    """
    return Path("/tmp") / f"ray-{address.replace(':', '-')[-_FOLDER_LENGTH:]}"  # noqa: S108  Ray makes it, as it does /tmp/ray


class RayNode:
    """This machine as a part of the Ray of a head, until `leave`.

    Ray's node process waits for 15 s until processes that choose ports themselves have told them, and ends then: on a
    busy machine, that is too short, so they get ports. One of these Ray 2.60 keeps from its node process, which looks
    for it in a file: `goes_on` writes that.
    """

    def __init__(self, head: tuple[str, int], address: str, *, folder: Path | None, machine: Machine) -> None:
        """Let this machine join. What Ray prints goes to `ray.log` in the folder of the outputs."""
        self._ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        command = [
            *(str(Path(sys.executable).parent / "ray"), "start", f"--address={head[0]}:{head[1]}"),
            *(f"--node-ip-address={address}", f"--temp-dir={folder or folder_for(address)}"),
            *("--num-cpus=1", "--num-gpus=0", f'--resources={{"{_WORKER}": 1}}', "--block", "--disable-usage-stats"),
            *(f"--object-store-memory={_OBJECT_STORE_BYTES}", "--log-color=false"),
            *(f"--{option}={port}" for option, port in self._ports.items()),
        ]
        log = Path(machine.outputs) / "ray.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # noqa: S603
        self._dead = 0

    def goes_on(self) -> bool:
        """Whether it takes part, or is about to; to be asked several times a second. Ray itself waits for minutes for a
        process that has died while it starts.
        """
        if self._process.poll() is not None:
            return False
        try:
            children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            states = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0] for one in children]
            for one in children:
                self._tell_port(Path(f"/proc/{one}/cmdline").read_text().split("\0"))
        except OSError:  # one of them is gone since
            return True
        self._dead = self._dead + 1 if "Z" in states else 0
        return self._dead < _DEAD_GLANCES

    def leave(self) -> None:
        """End Ray here; the worker goes on. Ray takes no signal while it starts."""
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tell_port(self, command: Sequence[str]) -> None:
        """Write the file that a node process with this command waits for."""
        options = dict(one.removeprefix("--").split("=", 1) for one in command if "=" in one)
        if {"node_id", "session_dir", "raylet_socket_name"} <= options.keys():
            name = f"{_LISTEN_PORT.replace('-', '_')}_{options['node_id']}"
            file = Path(options["session_dir"]) / name
            if not file.exists():
                file.write_text(str(self._ports[_LISTEN_PORT]))


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has at this moment."""
    with ExitStack() as stack:
        taken = [stack.enter_context(closing(socket.create_server(("", 0)))) for _ in range(count)]
        return [one.getsockname()[1] for one in taken]


def prepare(machine: Machine | None) -> None:
    """Set what Ray's processes, and what they start, take from the environment; to be called before all else here.
    Raises MissingExtra without Ray.

    Ray sends its token as it is, so it gets another one than heartbeats are signed with.
    """
    if find_spec("ray") is None:
        raise MissingExtra("ray", extra="cluster", purpose="a cluster")
    os.environ.update(_ENVIRONMENT)
    os.environ["RAY_AUTH_TOKEN"] = hashlib.sha256(f"ray {token_from_environment()}".encode()).hexdigest()
    if machine is not None:
        os.environ[MACHINE_VARIABLE] = machine.to_json()
