"""A real PostgreSQL server for tests: killed with all its processes, stopped, and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from tests.integration.delivery.servers import Server, program
from tests.ports import free_port
from tests.waiting import wait_until

PASSWORD = "p@ss/w0rd:ü"


class PostgresServer(Server):
    """PostgreSQL on the loopback, whose user `sightline` has the password `PASSWORD`; `psql` reads it."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self._own = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
        self._psql = program("psql", package="postgresql-client")
        data = folder / "data"
        super().__init__(
            [*self._own, program("postgres", package="postgresql"), "-D", data],
            port=port,
            folder=folder,
            ready=lambda: self._query("postgres", "SELECT 1").returncode == 0,
        )
        if self._own:
            shutil.chown(folder, "postgres", "postgres")
        secret = folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        options = ["-U", "postgres", "--pwfile", str(secret), "-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8"]
        initdb = [*self._own, program("initdb", package="postgresql"), "-D", str(data), *options]
        subprocess.run(initdb, check=True, capture_output=True, cwd=folder)
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(f"port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{folder}'\n")

    def url(self, *, user: str = "sightline", password: str = PASSWORD, database: str = "site") -> str:
        """Return the URL of the server for a user."""
        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def psql(self, statement: str, *, database: str = "site") -> list[str]:
        """Return the lines that `psql` prints for a statement, without headings."""
        done = self._query(database, statement)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def kill(self) -> None:
        """End all its processes with SIGKILL, as a crash of the machine would."""
        ours = self._processes()
        super().kill()
        wait_until(lambda: not any(_is_running(process) for process in ours))

    def _query(self, database: str, statement: str) -> subprocess.CompletedProcess[str]:
        command = [self._psql, self.url(user="postgres", database=database), "-XAtq", "-c", statement]
        return subprocess.run(command, check=False, capture_output=True, text=True, cwd="/")

    def _processes(self) -> list[int]:
        """The server's process and those that it forked, each of which is a process group of its own."""
        if self._process is None:
            return []
        first = self._process.pid
        children = Path(f"/proc/{first}/task/{first}/children")
        return [first, *map(int, children.read_text().split())] if children.exists() else [first]

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes():
            with suppress(ProcessLookupError):
                os.kill(process, number)


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def postgresql() -> Iterator[PostgresServer]:
    """Start a server with a database `site` that the user `sightline` owns; end it with the context."""
    folder = Path(tempfile.mkdtemp(prefix="sightline-postgresql-"))
    folder.chmod(0o755)
    try:
        server = PostgresServer(folder)
        server.start()
        try:
            server.psql(f"CREATE ROLE sightline LOGIN PASSWORD '{PASSWORD}'", database="postgres")
            server.psql("CREATE DATABASE site OWNER sightline", database="postgres")
            yield server
        finally:
            server.go_on()
            server.kill()
    finally:
        shutil.rmtree(folder)
