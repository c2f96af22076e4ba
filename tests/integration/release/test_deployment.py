"""The files in `deploy/`: they fit their formats, and what they start is a command that runs."""

from __future__ import annotations

import configparser
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from sightline.cli.main import execute
from sightline.client import Client
from tests.command_line import called
from tests.integration.cli.conftest import ENDLESS, command
from tests.integration.server.conftest import ask, wait_for

TOKEN = "0123456789abcdef0123456789abcdef"
KUBERNETES, CLUSTER = "deploy/kubernetes/sightline.yaml", "deploy/kubernetes/cluster.yaml"


class RepeatingParser(configparser.RawConfigParser):
    """systemd's format: a key may be there twice, and its case counts."""

    def __init__(self) -> None:
        super().__init__(strict=False, delimiters=("=",))

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def documents(path: Path) -> list[dict[str, Any]]:
    return list(YAML(typ="safe", pure=True).load_all(path))


def objects(repository: Path, kind: str) -> list[dict[str, Any]]:
    return [one for one in documents(repository / KUBERNETES) if one["kind"] == kind]


def container(repository: Path) -> dict[str, Any]:
    [deployment] = objects(repository, "Deployment")
    [found] = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def compose(repository: Path) -> dict[str, dict[str, Any]]:
    [found] = documents(repository / "deploy/compose.yaml")
    services: dict[str, dict[str, Any]] = found["services"]
    return services


def unit(repository: Path) -> configparser.RawConfigParser:
    parser = RepeatingParser()
    parser.read(repository / "deploy/systemd/sightline.service")
    return parser


def started(repository: Path) -> dict[str, list[str]]:
    """What each file starts, without the program."""
    program, *arguments = shlex.split(unit(repository)["Service"]["ExecStart"])
    assert Path(program).name == "sightline"
    services = {f"compose {name}": one["command"] for name, one in compose(repository).items()}
    return {"systemd": arguments, "kubernetes": container(repository)["args"], **services}


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        (KUBERNETES, ["ConfigMap", "PersistentVolumeClaim", "Deployment", "Service"]),
        (CLUSTER, ["ConfigMap", "Service", "NetworkPolicy", "StatefulSet", "DaemonSet"]),
    ],
)
def test_kubernetes_objects_fit_their_schemas(repository: Path, path: str, kinds: list[str]) -> None:
    found = documents(repository / path)

    assert [one["kind"] for one in found] == kinds
    for one in found:
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


def test_pipelines_of_the_config_map_fit_the_schema(repository: Path, tmp_path: Path) -> None:
    [found] = objects(repository, "ConfigMap")
    for name, text in found["data"].items():
        (tmp_path / name).write_text(text)
        done = called("explain", name, folder=tmp_path)
        assert done.returncode == 0, done.stderr


def test_the_commands_of_a_cluster_take_their_options_and_its_pipeline(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SIGHTLINE_CLUSTER_TOKEN", raising=False)
    config, _, _, head, worker = documents(repository / CLUSTER)
    site = tmp_path / "site.yaml"
    site.write_text(config["data"]["site.yaml"])
    assert execute(["check", str(site)]) == 0

    for one, name in ((head, "run"), (worker, "worker")):
        [found] = one["spec"]["template"]["spec"]["containers"]
        given = {"$(POD_IP)": "10.0.0.1", "$(NODE_NAME)": "node-1", "/site/site.yaml": str(site)}
        arguments = [given.get(argument, argument) for argument in found["args"]]
        assert arguments[:2] == ["cluster", name]
        capsys.readouterr()
        assert execute(arguments) == 2
        assert "a cluster needs a token" in capsys.readouterr().err, "options are read before the token"


def test_systemd_takes_the_unit(repository: Path, tmp_path: Path) -> None:
    text = (repository / "deploy/systemd/sightline.service").read_text()
    copy = tmp_path / "sightline.service"
    copy.write_text(text.replace("/opt/sightline/bin/sightline", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_all_wait_longer_than_the_pipelines_may_take_to_close(repository: Path) -> None:
    for name, arguments in started(repository).items():
        assert arguments[arguments.index("--end-timeout") + 1] == "20s", name
    [deployment] = objects(repository, "Deployment")
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > 20 * 2
    assert int(unit(repository)["Service"]["TimeoutStopSec"]) > 20 * 2
    assert all(int(one["stop_grace_period"].removesuffix("s")) > 20 * 2 for one in compose(repository).values())


def test_what_all_start_runs_and_is_well(repository: Path, tmp_path: Path) -> None:
    """As a container does: without a home folder, and with pipelines that come by a link which changes."""
    all_started = started(repository)
    assert len({(one[0], *one[2::2]) for one in all_started.values()}) == 1, "the same options"
    pipelines, data = tmp_path / "pipelines", tmp_path / "data"
    data.mkdir()
    publish(pipelines, "..first", {"gate.yaml": ENDLESS})
    arguments = list(all_started["kubernetes"])
    for option, value in {"--listen": "127.0.0.1:0", "--output-root": str(data)}.items():
        arguments[arguments.index(option) + 1] = value
    arguments[1] = str(pipelines)
    assert "SIGHTLINE_TOKEN" in {one["name"] for one in container(repository)["env"]}
    image = (repository / "deploy/containers/cpu.Containerfile").read_text()
    assert "SIGHTLINE_TOKENS=/data/" in image, "the audit log has to be where the user may write"
    given = {"SIGHTLINE_TOKEN": TOKEN, "SIGHTLINE_TOKENS": str(data / "tokens.json"), "HOME": "/nonexistent"}
    with subprocess.Popen(
        command(*arguments), cwd=data, env={**os.environ, **given}, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            url = next(line.split()[-1] for line in server.stderr if line.startswith("listening on "))
            port = int(url.rstrip("/").rpartition(":")[2])
            until_ready(port, pipelines=1)
            program, *code = container(repository)["livenessProbe"]["exec"]["command"]
            assert program == "python3"
            probe = [sys.executable, *(part.replace(":8080/", f":{port}/") for part in code)]
            subprocess.run(probe, env={**os.environ, **given}, check=True)
            with Client(f"http://127.0.0.1:{port}", token=TOKEN) as client:  # which is noted in the audit log
                client.pipeline("gate").put_stream("yard", {"pattern": "bars"})
            publish(
                pipelines, "..second", {"gate.yaml": ENDLESS, "yard.yaml": ENDLESS.replace("out.jsonl", "yard.jsonl")}
            )
            until_ready(port, pipelines=2)
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate()
        assert server.wait() == 0


def publish(folder: Path, version: str, files: dict[str, str]) -> None:
    """Put files as Kubernetes puts a ConfigMap: links through a link, which is exchanged."""
    (folder / version).mkdir(parents=True)
    for name, text in files.items():
        (folder / version / name).write_text(text)
    (folder / "..new").symlink_to(version)
    (folder / "..new").rename(folder / "..data")
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def until_ready(port: int, *, pipelines: int) -> None:
    def is_ready() -> bool:
        found = ask(port, "/api/v1/pipelines", token=TOKEN).json()
        return len(found) == pipelines and all(one["ready"] for one in found)

    wait_for(is_ready)
