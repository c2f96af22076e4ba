"""A RabbitMQ server for tests, in a folder of its own; nothing of it listens beyond loopback.

A node of Erlang registers with a name server, `epmd`, which it starts as a daemon that outlives it. Here `epmd` is a
child of its own, on a port of its own, so that the daemon finds the port taken and ends, and other nodes on the machine
are not met. The script of Debian's /usr/sbin changes the user; the one of /usr/lib runs as who calls it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from pika import BlockingConnection, URLParameters

from tests.conftest import missing
from tests.integration.delivery.servers import Server, listens, program
from tests.ports import free_port
from tests.waiting import wait_until

SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
USER, PASSWORD = "site", "p@ss/w0rd"
READER, READER_PASSWORD = "reader", "read-only"
NARROW, NARROW_PASSWORD = "narrow", "one-exchange"
VHOST = "north gate"
MAX_BYTES = 1_000_000

_EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
_ONE_EXCHANGE = {"configure": "^sightline$", "write": "^sightline$", "read": "^$"}
_READING = {"configure": "^$", "write": "^$", "read": ".*"}


class RabbitMq(Server):
    """A broker with the virtual hosts `/` and `VHOST`, and three users: `USER`, `READER`, who may not write, and
    `NARROW`, who may write to the exchange `sightline` only.
    """

    def __init__(self, folder: Path, *, settings: Mapping[str, object] | None = None) -> None:
        """`settings` are added to those in rabbitmq.conf."""
        program("rabbitmq-server", package="rabbitmq-server")
        if not SCRIPT.exists():
            missing(f"{SCRIPT} is not there (apt-get install rabbitmq-server)")
        port, epmd_port = free_port(), free_port()
        self._epmd = Server(["epmd", "-port", str(epmd_port), "-address", "127.0.0.1"], port=epmd_port, folder=folder)
        (folder / "plugins").write_text("[].")
        (folder / "definitions.json").write_text(json.dumps(_definitions()))
        lines: dict[str, object] = {
            "listeners.tcp.1": f"127.0.0.1:{port}",
            "loopback_users": "none",
            "max_message_size": MAX_BYTES,
            "log.console": "true",
            "log.file": "false",
            "load_definitions": folder / "definitions.json",
            **(settings or {}),
        }
        (folder / "rabbitmq.conf").write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        environment = {
            "HOME": folder,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": epmd_port,
            "RABBITMQ_CONF_ENV_FILE": folder / "none",
            "RABBITMQ_CONFIG_FILE": folder / "rabbitmq.conf",
            "RABBITMQ_DIST_PORT": free_port(),
            "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "plugins",
            "RABBITMQ_LOG_BASE": folder / "log",
            "RABBITMQ_MNESIA_BASE": folder / "mnesia",
            "RABBITMQ_NODENAME": f"sl{port}@localhost",
            "RABBITMQ_PID_FILE": folder / "pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none",
        }
        self._environment = ["env", *(f"{key}={value}" for key, value in environment.items())]
        self._log_bytes = 0
        super().__init__([*self._environment, SCRIPT], port=port, folder=folder, ready=self._accepts_users)

    def start(self) -> None:
        """Start it, and its name server unless that still runs."""
        if not listens(self._epmd.port):
            self._epmd.start()
        if (log := self.folder / "server.log").exists():
            self._log_bytes = log.stat().st_size
        super().start()

    def kill(self) -> None:
        """End it with SIGKILL, and wait until its port is free."""
        super().kill()
        wait_until(lambda: not listens(self.port))

    def end(self) -> None:
        """End it and its name server."""
        self.kill()
        self._epmd.kill()

    def control(self, *arguments: str) -> None:
        """Run rabbitmqctl."""
        command = [*map(str, self._environment), str(SCRIPT.with_name("rabbitmqctl")), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder)

    def url(self, vhost: str = "", *, user: str = USER, password: str = PASSWORD) -> str:
        """Return the URL of a virtual host."""
        return address("amqp", self.port, vhost, user=user, password=password)

    def connection(self, vhost: str = "") -> BlockingConnection:
        """Connect, for the side that reads."""
        return BlockingConnection(URLParameters(f"{self.url(vhost)}?heartbeat=0"))

    def _accepts_users(self) -> bool:
        """Whether the definitions are loaded and the node is up, which is after it has begun to listen."""
        log = (self.folder / "server.log").read_bytes()[self._log_bytes :]
        return b"completed with 0 plugins" in log and listens(self.port)


def address(scheme: str, port: int, vhost: str = "", *, user: str = USER, password: str = PASSWORD) -> str:
    """Return a URL of a broker on this machine."""
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@127.0.0.1:{port}/{quote(vhost, safe='')}"


def _definitions() -> dict[str, object]:
    """Users, virtual hosts and permissions, as `rabbitmqctl export_definitions` writes them."""
    return {
        "users": [
            {"name": USER, "password": PASSWORD, "tags": ""},
            {"name": READER, "password": READER_PASSWORD, "tags": ""},
            {"name": NARROW, "password": NARROW_PASSWORD, "tags": ""},
        ],
        "vhosts": [{"name": "/"}, {"name": VHOST}],
        "permissions": [
            {"user": user, "vhost": vhost, **allowed}
            for user, allowed in ((USER, _EVERYTHING), (READER, _READING), (NARROW, _ONE_EXCHANGE))
            for vhost in ("/", VHOST)
        ],
    }
