"""`sightline run --listen`: served while it runs, and to nobody who should not see it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Sightline, command

TOKEN = "0123456789abcdef0123456789abcdef"
Start = Callable[..., tuple[subprocess.Popen[str], str]]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start the endless pipeline; the process, and the address that it said."""
    running: list[subprocess.Popen[str]] = []

    def started(*arguments: str, **environment: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            command("run", "endless.yaml", *arguments),
            cwd=folder,
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            if match := re.fullmatch(r"listening on (http://\S+/)", line.strip()):
                return process, match[1]
        raise AssertionError("it did not say where it listens")

    yield started
    for process in running:
        process.kill()
        process.communicate()


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=300) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_run_is_served_until_it_ends(start: Start) -> None:
    process, url = start("--listen", "127.0.0.1:0")

    assert get(f"{url}healthz") == (200, "ok\n")
    assert "sightline_build_info" in get(f"{url}metrics")[1]

    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    with pytest.raises(urllib.error.URLError):
        get(f"{url}healthz")


@pytest.fixture
def no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No token is set, and none has been made."""
    monkeypatch.setenv("SIGHTLINE_TOKEN", "")
    monkeypatch.setenv("SIGHTLINE_TOKENS", str(tmp_path / "tokens.json"))


@pytest.mark.usefixtures("no_token")
def test_the_first_token_is_shown_once_and_opens_everything(start: Start, called: Sightline) -> None:
    process, url = start("--listen", "127.0.0.1:0")
    assert process.stderr is not None
    link = process.stderr.readline().split()[-1]

    assert link.startswith(f"{url}?token=")
    assert get(url)[0] == 401
    assert get(link.replace("/?", "/dashboard/app.js?"))[0] == 200
    made = called("token", "add", "anna").stdout.strip()
    assert get(f"{url}dashboard/app.js", Authorization=f"Bearer {made}")[0] == 200
    assert "anna   viewer" in called("token", "list").stdout
    assert called("token", "remove", "anna").returncode == 0
    assert get(f"{url}dashboard/app.js", Authorization=f"Bearer {made}")[0] == 401
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)

    again, _ = start("--listen", "127.0.0.1:0")
    again.send_signal(signal.SIGINT)
    _, said = again.communicate(timeout=300)
    assert "token=" not in said


def test_beyond_the_loopback_the_token_is_asked_for(start: Start) -> None:
    process, url = start("--listen", "0.0.0.0:0", SIGHTLINE_TOKEN=TOKEN)
    url = url.replace("0.0.0.0", "127.0.0.1")

    assert get(f"{url}healthz")[0] == 401
    assert get(f"{url}healthz", Authorization=f"Bearer {TOKEN}")[0] == 200

    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert TOKEN not in said


@pytest.mark.usefixtures("no_token")
@pytest.mark.parametrize("address", ["0.0.0.0:0", ":0", "[::]:0"])
def test_beyond_the_loopback_it_is_refused_without_a_token(called: Sightline, address: str) -> None:
    done = called("run", "endless.yaml", "--listen", address)

    assert done.returncode == 2
    assert "SIGHTLINE_TOKEN" in done.stderr


@pytest.mark.row(id="D8")
def test_what_can_not_be_listened_on_is_refused(called: Sightline) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = called("run", "endless.yaml", "--listen", address)

    assert done.returncode == 2
    assert done.stderr.strip() == f"error: cannot listen on {address}: Address already in use; choose another port"


def test_a_step_that_is_not_there_has_no_images(called: Sightline) -> None:
    done = called("run", "endless.yaml", "--listen", "127.0.0.1:0", "--images", "draw-1")

    assert done.returncode == 2
    assert "jsonl-1" in done.stderr


def test_a_token_without_listening_is_a_mistake(called: Sightline) -> None:
    assert called("run", "endless.yaml", "--token", TOKEN).returncode == 2
