"""A whole cluster with real Ray, on two addresses of the loopback: a head that runs streams, too, and a worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from sightline.cli.main import execute
from sightline_plugins.commands.cluster.keeper import end_worker
from sightline_plugins.commands.cluster.process import holder_of
from tests.conftest import missing
from tests.ports import free_port
from tests.waiting import wait_until

HEAD, WORKER = "127.0.0.1", "127.0.0.2"
SECONDS = 500.0
CONFIG = """
name: site
sources:
  gate: {pattern: counter, size: [64, 48], fps: 5, frames: null, realtime: true}
  yard: {pattern: counter, size: [64, 48], fps: 5, frames: null, realtime: true}
cluster: {fps: 5, moving: 1, lease: 60s}
pipeline:
- jsonl: "{stream}.jsonl"
"""


class Site:
    """The commands of a cluster, and what they write."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.ray_port = folder, free_port(), free_port()
        self.running: list[subprocess.Popen[bytes]] = []
        (folder / "site.yaml").write_text(CONFIG)

    def start(self, address: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start the command of a machine."""
        outputs = self.outputs(address)
        outputs.mkdir()
        own = ["--address", address, "--capacity", "100", "--output-root", str(outputs), "--label", f"at={address}"]
        command = [sys.executable, "-m", "sightline.cli.main", "cluster", *arguments, *own]
        with (outputs / "command.log").open("wb") as log:
            self.running.append(
                subprocess.Popen([*command, "--ray-folder", str(self.folder / address[-1])], stdout=log, stderr=log)
            )
        return self.running[-1]

    def outputs(self, address: str) -> Path:
        """The folder of a machine."""
        return self.folder / address

    def status(self, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        """What `cluster status` prints; empty while no controller answers."""
        code = execute(["cluster", "status", "--controller", f"{HEAD}:{self.port}", "--json"])
        shown = capsys.readouterr().out
        return dict(json.loads(shown)["status"]) if code == 0 else {}

    def close(self) -> None:
        """End everything."""
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.running):
            process.wait(SECONDS)
        for address in (HEAD, WORKER):
            assert end_worker(self.outputs(address), timeout_seconds=SECONDS)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    if find_spec("ray") is None:
        missing("Ray is not installed (pip install ray)")
    monkeypatch.setenv("SIGHTLINE_CLUSTER_TOKEN", "0123456789abcdef" * 4)
    with TemporaryDirectory(prefix="slr", dir="/tmp") as folder:
        one = Site(Path(folder))
        try:
            yield one
        finally:
            one.close()


@pytest.mark.timeout(1800)
def test_a_cluster_starts_shows_itself_is_drained_and_ends(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    head = site.start(
        HEAD, ["run", str(site.folder / "site.yaml"), "--port", str(site.port), "--ray-port", str(site.ray_port)]
    )
    worker = site.start(WORKER, ["worker", "--head", f"{HEAD}:{site.ray_port}"])

    def holders() -> list[str]:
        assert head.poll() is None, (site.outputs(HEAD) / "command.log").read_text()
        assert worker.poll() is None, (site.outputs(WORKER) / "command.log").read_text()
        return sorted(one for one, _ in site.status(capsys).get("assignment", {}).values())

    wait_until(lambda: holders() == [HEAD, WORKER])
    wait_until(lambda: all(any(site.outputs(one).glob("*.jsonl")) for one in (HEAD, WORKER)))

    worker_process = holder_of(site.outputs(WORKER))
    assert worker_process is not None
    assert os.getpriority(os.PRIO_PROCESS, worker_process.pid) == os.getpriority(os.PRIO_PROCESS, 0)

    assert execute(["cluster", "drain", WORKER, "--controller", f"{HEAD}:{site.port}"]) == 0
    wait_until(lambda: holders() == [HEAD, HEAD])
    wait_until(lambda: {path.name[:4] for path in site.outputs(HEAD).glob("*.jsonl")} == {"gate", "yard"})

    worker.send_signal(signal.SIGTERM)
    assert worker.wait(SECONDS) == 0
    assert holder_of(site.outputs(WORKER)) is None
    head.send_signal(signal.SIGTERM)
    assert head.wait(SECONDS) == 0
    assert holder_of(site.outputs(HEAD)) is not None  # its streams go on until the next `cluster run`
    assert execute(["cluster", "status", "--controller", f"{HEAD}:{site.port}"]) == 2
