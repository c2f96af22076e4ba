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
import subprocess
import sys
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
}
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
        """Start Ray at an address of this machine. `folder` is where Ray writes; `machine` makes this one a worker,
        too. Raises ConfigurationError.
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
                **({} if folder is None else {"_temp_dir": str(folder)}),
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


def join(head: tuple[str, int], address: str, *, folder: Path | None, machine: Machine) -> subprocess.Popen[bytes]:
    """Let this machine join the Ray of a head, and return the process that stays as long as it takes part. What
    Ray prints goes to `ray.log` in the folder of the outputs.
    """
    command = [
        *(
            str(Path(sys.executable).parent / "ray"),
            "start",
            f"--address={head[0]}:{head[1]}",
            f"--node-ip-address={address}",
        ),
        *("--num-cpus=1", "--num-gpus=0", f'--resources={{"{_WORKER}": 1}}', "--block", "--disable-usage-stats"),
        *(f"--object-store-memory={_OBJECT_STORE_BYTES}", "--log-color=false"),
        *(() if folder is None else (f"--temp-dir={folder}",)),
    ]
    log = Path(machine.outputs) / "ray.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # noqa: S603


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
