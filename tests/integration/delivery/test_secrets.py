"""Passwords of destinations appear in nothing that is printed, served or written."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

from tests.command_line import called
from tests.integration.delivery.web_server import web_server
from tests.ports import free_port
from tests.waiting import LIMIT_SECONDS, wait_until

PASSWORD = "p@ss/canary:ü"
SIGHTLINE = [sys.executable, "-m", "sightline.cli.main"]
FORMS = ("canary", base64.b64encode(f"me:{PASSWORD}".encode()).decode())
"""What is in the password however it is quoted, and what HTTP sends."""


def steps(refusing: str) -> list[dict[str, dict[str, object]]]:
    """A step for each kind of destination; nothing listens but a web service that refuses all records."""
    schemes = ("mqtt", "nats", "redis", "kafka", "amqp", "postgresql", "http")
    me = f"me:{quote(PASSWORD, safe='')}"
    urls = {scheme: f"{scheme}://{me}@127.0.0.1:{free_port()}/" for scheme in schemes}
    names = {"postgresql": "postgres", "http": "webhook"}
    own: dict[str, dict[str, object]] = {"amqp": {"exchange": "sightline"}}
    away: list[dict[str, dict[str, object]]] = [
        {names.get(scheme, scheme): {"url": url, "timeout": "1s", **own.get(scheme, {})}}
        for scheme, url in urls.items()
    ]
    there = refusing.replace("//", f"//{me}@") + "/?token=canary"
    headers = {"X-Key": PASSWORD}
    return [
        *away,
        {"otlp": {"url": f"http://{me}@127.0.0.1:{free_port()}/?token=canary", "timeout": "1s", "headers": headers}},
        {"webhook": {"url": there, "secret": PASSWORD, "headers": headers}},
    ]


def test_passwords_of_destinations_are_nowhere(tmp_path: Path) -> None:
    config = tmp_path / "secret.yaml"
    with web_server(lambda exchange, _: exchange.answer(400, "no")) as web:
        source = {"pattern": "counter", "size": [64, 48], "frames": None, "realtime": True}
        pipeline = {"name": "secret", "sources": {"gate": source}, "pipeline": steps(web.url)}
        config.write_text(json.dumps(pipeline))

        shown = {" ".join(one): _output(tmp_path, *one) for one in _COMMANDS}
        command = [*SIGHTLINE, "run", "secret.yaml", "--verbose", "--listen", "127.0.0.1:0", "--report", "report.json"]
        log = tmp_path / "log"
        with log.open("wb") as file, subprocess.Popen(command, cwd=tmp_path, stdout=file, stderr=file) as process:
            try:
                dead_letters = tmp_path / "out" / "secret.outbox.refused.jsonl"
                lost = len(pipeline["pipeline"]) - 1
                wait_until(lambda: log.read_text().count("records are kept") >= lost and dead_letters.exists())
                [server] = re.findall(r"http://127\.0\.0\.1:\d+(?=/)", log.read_text())[:1]
                shown |= {path: _served(server + path) for path in ("/", "/status", "/metrics", "/readyz")}
                shown["outbox show"] = _output(tmp_path, "outbox", "show", "secret.yaml")
                files = {f"{path.name} early": path.read_bytes() for path in (tmp_path / "out").iterdir()}
                process.send_signal(signal.SIGTERM)
                process.wait(LIMIT_SECONDS)
            finally:
                process.kill()

    files |= {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    files |= {path.name: path.read_bytes() for path in (log, tmp_path / "report.json")}
    everything = {name: text.encode() for name, text in shown.items()} | files
    assert {"secret.outbox", "secret.outbox.refused.jsonl", "report.json", "log"} <= {*files}
    assert all("webhook-1" in shown[path] for path in ("/status", "/metrics"))
    assert [name for name, content in everything.items() if any(form.encode() in content for form in FORMS)] == []


_COMMANDS = (
    ("check", "secret.yaml"),
    ("explain", "secret.yaml"),
    ("graph", "secret.yaml"),
    ("elements",),
    ("elements", "webhook"),
)


def _output(folder: Path, *arguments: str) -> str:
    done = called(*arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def _served(url: str) -> str:
    try:
        with urlopen(url) as answer:
            return str(answer.read().decode())
    except OSError as error:
        return str(error)
