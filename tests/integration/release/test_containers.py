"""The container files: what they state is checked, and their health check asks a real server. Nothing is built."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.conftest import ENDLESS, command

FILES = ("cpu", "cuda")
TOKEN = "0123456789abcdef0123456789abcdef"


def instructions(repository: Path, name: str) -> list[tuple[str, str]]:
    """The instructions of a container file with their arguments, lines joined, comments left out."""
    lines = (repository / "deploy" / "containers" / f"{name}.Containerfile").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    pairs = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(kind, arguments) for kind, arguments in pairs]


def last(parsed: list[tuple[str, str]], kind: str) -> str:
    return [arguments for found, arguments in parsed if found == kind][-1]


def stages(parsed: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    starts = [index for index, (kind, _) in enumerate(parsed) if kind == "FROM"]
    return [parsed[start:end] for start, end in zip(starts, [*starts[1:], len(parsed)], strict=True)]


def health_check(parsed: list[tuple[str, str]]) -> list[str]:
    found: list[str] = json.loads(last(parsed, "HEALTHCHECK").partition("CMD ")[2])
    return found


@pytest.fixture(params=FILES)
def parsed(request: pytest.FixtureRequest, repository: Path) -> list[tuple[str, str]]:
    return instructions(repository, request.param)


def test_every_instruction_is_one_of_the_format(parsed: list[tuple[str, str]]) -> None:
    known = {"FROM", "ARG", "RUN", "COPY", "ENV", "USER", "WORKDIR", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}

    assert {kind for kind, _ in parsed} <= known
    assert json.loads(last(parsed, "ENTRYPOINT")) == ["sightline"]


def test_the_image_runs_as_a_user_without_rights(parsed: list[tuple[str, str]]) -> None:
    uid, gid = last(parsed, "USER").split(":")

    assert int(uid) > 0
    assert int(gid) > 0
    assert any(kind == "RUN" and f"--uid {uid} " in arguments for kind, arguments in stages(parsed)[-1])


def test_the_image_has_neither_pip_nor_compilers(parsed: list[tuple[str, str]]) -> None:
    build, final = stages(parsed)

    assert any(kind == "RUN" and "pip uninstall --yes pip" in arguments for kind, arguments in build)
    packages = " ".join(arguments for kind, arguments in final if kind == "RUN")
    assert not re.search(r"g\+\+|gcc|-dev\b|python3-venv|pip", packages)


def test_every_layer_of_packages_leaves_no_lists_behind(parsed: list[tuple[str, str]]) -> None:
    installing = [arguments for kind, arguments in parsed if kind == "RUN" and "apt-get install" in arguments]

    assert len(installing) == 2
    assert all("--no-install-recommends" in one and "rm -rf /var/lib/apt/lists/*" in one for one in installing)


def test_base_images_have_a_tag_and_only_the_wheel_comes_from_outside(parsed: list[tuple[str, str]]) -> None:
    bases = [arguments.split()[0] for kind, arguments in parsed if kind == "FROM"]
    copied = [arguments for kind, arguments in parsed if kind == "COPY" and "--from" not in arguments]

    assert all(re.fullmatch(r"docker\.io/[\w/]+:[\w.-]+", base) and ":latest" not in base for base in bases)
    assert copied == ["*.whl /wheels/"]


@pytest.mark.parametrize("shell_of", FILES)
def test_the_commands_are_valid_shell(repository: Path, shell_of: str) -> None:
    for kind, arguments in instructions(repository, shell_of):
        if kind == "RUN":
            subprocess.run(["sh", "-n", "-c", arguments], check=True)


@pytest.mark.parametrize(("token", "healthy"), [(TOKEN, True), ("wrong" + TOKEN, False)])
def test_the_health_check_asks_the_server_with_the_token(
    parsed: list[tuple[str, str]], tmp_path: Path, token: str, healthy: bool
) -> None:
    (tmp_path / "endless.yaml").write_text(ENDLESS)
    run = command("run", "endless.yaml", "--listen", "127.0.0.1:0")
    with subprocess.Popen(
        run, cwd=tmp_path, env={**os.environ, "SIGHTLINE_TOKEN": TOKEN}, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            url = next(line.split()[-1] for line in process.stderr if line.startswith("listening on "))
            done = ask(parsed, port=int(url.rstrip("/").rpartition(":")[2]), token=token)
        finally:
            process.send_signal(signal.SIGKILL)

    assert (done.returncode == 0) == healthy, done.stderr


def test_the_health_check_fails_where_nothing_listens(parsed: list[tuple[str, str]]) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        done = ask(parsed, port=bound.getsockname()[1], token=TOKEN)

    assert done.returncode != 0


def ask(parsed: list[tuple[str, str]], *, port: int, token: str) -> subprocess.CompletedProcess[str]:
    """Run the health check of a container file against another port."""
    program, option, code = health_check(parsed)
    assert (program, option, ":8080/" in code) == ("python3", "-c", True)
    return subprocess.run(
        [sys.executable, option, code.replace(":8080/", f":{port}/")],
        env={**os.environ, "SIGHTLINE_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
    )
