"""`sightline serve` as people run it: a process of its own, asked over HTTP."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.server.credentials import Role, TokenFile
from tests.integration.server.conftest import Answer, ask, wait_for

SOURCE = "{pattern: moving, size: [64, 48], frames: null, realtime: true}"
PATIENCE_SECONDS = 300.0
API = "/api/v1/pipelines"


def pipeline_text(name: str, *steps: str, source: str = SOURCE) -> str:
    """A pipeline that writes `NAME.jsonl`."""
    lines = ["sources:", f"  cam: {source}", "pipeline:", *(f"  - {step}" for step in steps)]
    return "\n".join([*lines, f"  - jsonl: {{path: {name}.jsonl}}", ""])


def frames_in(path: Path) -> list[int]:
    """The indices of the frames in a JSONL file; a line that is being written is left out."""
    if not path.exists():
        return []
    return [json.loads(line)["frame"] for line in path.read_text().split("\n")[:-1]]


@dataclass
class Server:
    """A server that runs, and the tokens of its users."""

    process: subprocess.Popen[str]
    port: int
    log: Path
    admin: str
    viewer: str

    def ask(self, path: str, *, method: str = "GET", token: str | None = None) -> Answer:
        return ask(self.port, path, method=method, token=self.admin if token is None else token)

    def pipeline(self, name: str) -> dict[str, Any]:
        """What the server tells of a pipeline; nothing when there is none."""
        found: dict[str, dict[str, Any]] = {one["name"]: one for one in self.ask(API).json()}
        return found.get(name, {"state": None, "ready": False, "restarts": 0, "pid": None})

    def wait_for_state(self, name: str, state: str | None) -> dict[str, Any]:
        wait_for(lambda: self.pipeline(name)["state"] == state, seconds=PATIENCE_SECONDS)
        return self.pipeline(name)

    def wait_until_ready(self, *names: str) -> None:
        for name in names:
            wait_for(lambda name=name: self.pipeline(name)["ready"], seconds=PATIENCE_SECONDS)  # type: ignore[misc]

    def text(self) -> str:
        """What it wrote on standard error."""
        return self.log.read_text()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Server]:
    """Run `sightline serve` in a folder while the block is open."""
    runtime = tempfile.mkdtemp(prefix="serve-")  # of a short name, because those of sockets are
    log = folder / "serve.log"
    tokens = folder / "tokens.json"
    known = TokenFile(tokens)
    admin, viewer = known.add("anna", Role.ADMIN), known.add("vera", Role.VIEWER)
    with log.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "sightline.cli.main", "serve", *arguments, "--listen", "127.0.0.1:0"],
            cwd=folder,
            env={**os.environ, "XDG_RUNTIME_DIR": runtime, "SIGHTLINE_TOKENS": str(tokens)},
            stderr=written,
            text=True,
        )
    try:
        wait_for(lambda: "listening on" in log.read_text() or process.poll() is not None, seconds=PATIENCE_SECONDS)
        address = re.search(r"listening on http://127\.0\.0\.1:(\d+)/", log.read_text())
        assert address is not None, log.read_text()
        yield Server(process, int(address[1]), log, admin, viewer)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE_SECONDS)
            finally:
                process.kill()
        known.path.unlink(missing_ok=True)
        shutil.rmtree(runtime, ignore_errors=True)
