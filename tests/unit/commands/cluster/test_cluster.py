"""What a file says of a cluster, and what the command refuses before anything starts."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest
from tests.waiting import wait_until

from sightline.cli.main import execute
from sightline.config import load_description
from sightline.devices import Device
from sightline.devices.processor import processor_name
from sightline.errors import ConfigurationError
from sightline.graph.outputs import Outputs
from sightline_plugins.commands.cluster import with_ray
from sightline_plugins.commands.cluster.charter import Charter
from sightline_plugins.commands.cluster.job import Job, Machine, capacity_of, configuration_of, files_of, streams_of

TOKEN = "0123456789abcdef" * 4
CONFIG = """
name: site
sources:
  north-1: {uri: "rtsp://10.0.1.11/main", max_fps: 5}
  north-2: rtsp://10.0.1.12/main
  south: rtsp://10.0.2.11/main
cluster: {fps: 15, streams: {"north-*": {requires: {site: north}, group: north}, south: {fps: 8}}}
pipeline: [{jsonl: "out/{stream}.jsonl"}]
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGHTLINE_CLUSTER_TOKEN", TOKEN)
    path = tmp_path / "site.yaml"
    path.write_text(CONFIG)
    return path


def test_streams_have_load_labels_group_and_source(config: Path) -> None:
    found = streams_of(load_description(config))

    assert {name: (one.load, one.requires, one.group) for name, one in found.items()} == {
        "north-1": (5.0, {"site": "north"}, "north"),
        "north-2": (15.0, {"site": "north"}, "north"),
        "south": (8.0, {}, ""),
    }
    assert found["north-1"].source == {"uri": "rtsp://10.0.1.11/main", "max_fps": 5.0}


def test_a_configuration_is_the_pipeline_without_sources(config: Path) -> None:
    found = configuration_of(load_description(config))

    assert found.pipeline["sources"] == {}
    assert found.pipeline["keep_running"] is True
    assert found.pipeline["pipeline"]
    assert "cluster" not in found.pipeline


def test_a_charter_and_what_workers_are_started_with_travel_as_text(config: Path, tmp_path: Path) -> None:
    charter = charter_of(config, tmp_path)

    assert Charter.from_json(charter.to_json()) == charter
    assert Job.from_json(charter.job.to_json()) == charter.job
    assert charter.specs == streams_of(load_description(config))


def charter_of(config: Path, folder: Path) -> Charter:
    return Charter.of(load_description(config), address=("10.0.0.1", 6380), outputs=Outputs(folder))


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ("cluster: {lease: 5s, ", "cluster.lease cannot change while the controller runs"),
        ("cluster: {prove: 1s, moving: 0.5, ", "cluster.moving and cluster.prove cannot change"),
        ("cluster: {store: out/other, ", "cluster.store or name cannot change"),
    ],
)
def test_options_of_a_controller_that_runs_cannot_change(config: Path, tmp_path: Path, section: str, text: str) -> None:
    before = charter_of(config, tmp_path)
    config.write_text(CONFIG.replace("cluster: {", section))

    with pytest.raises(ConfigurationError, match=text):
        before.check_successor(charter_of(config, tmp_path))


def test_a_charter_whose_steps_are_wrong_is_one_error_with_all_mistakes(config: Path, tmp_path: Path) -> None:
    config.write_text(CONFIG.replace("pipeline: [", "pipeline: [track, {draw: {}}, "))

    with pytest.raises(ConfigurationError, match="track"):
        charter_of(config, tmp_path)


def test_a_pattern_that_no_stream_has_is_a_mistake(config: Path) -> None:
    config.write_text(CONFIG.replace("south: {fps", '"east-*": {fps'))

    with pytest.raises(
        ConfigurationError, match=r"cluster\.streams\.east-\*: no stream has such a name; streams: north-1"
    ):
        streams_of(load_description(config))


def test_check_finds_a_lease_that_is_too_short_and_notes_a_pattern_that_no_stream_has(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG.replace("south: {fps", '"east-*": {fps'))
    assert execute(["check", str(config)]) == 0
    assert "cluster.streams.east-*: no stream has such a name" in capsys.readouterr().err

    config.write_text(CONFIG.replace("fps: 15,", "lease: 2s,"))
    assert execute(["check", str(config)]) == 2
    assert "cluster: lease is 2s: give three times heartbeat (1s) or more" in capsys.readouterr().err


def plan_of(cores: int, memory: float | None = None) -> str:
    """The part of a plan that a capacity comes from."""
    figures = {"processor": processor_name(), "cores": cores, "rates": {"a": 10.0, "b": 20.0}, "usable": 1.0}
    return json.dumps({"streams": 9, "most_streams": {"processor": 12.5, "memory": memory}, "figures": figures})


def test_a_capacity_is_what_a_plan_has_measured(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(plan_of(Device().cores))
    assert capacity_of(path) == 12.5 * 15

    path.write_text(plan_of(Device().cores, memory=4))
    assert capacity_of(path) == 4 * 15


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (plan_of(Device().cores + 1), "run `sightline plan` here"),
        ("{}", "is no result of `sightline plan CONFIG --json`"),
    ],
)
def test_a_plan_of_something_else_gives_no_capacity(tmp_path: Path, plan: str, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(plan)

    with pytest.raises(ConfigurationError, match=text):
        capacity_of(path)


def test_files_are_known_by_their_content(config: Path, tmp_path: Path) -> None:
    tracks = tmp_path / "tracks.txt"
    config.write_text(CONFIG.replace("pipeline: [", f"pipeline: [{{replay: {{path: {tracks}, format: mot}}}}, "))
    found = set()
    for text in ("1,1,1,1,10,10,1,-1,-1,-1\n", "1,1,1,1,20,20,1,-1,-1,-1\n"):
        tracks.write_text(text)
        ((path, content),) = files_of(load_description(config)).items()
        assert path == str(tracks)
        found.add(content)

    assert len(found) == 2


@pytest.mark.parametrize("token", ["", "short"])
@pytest.mark.parametrize("command", ["run", "worker", "status", "drain", "retry"])
def test_nothing_starts_without_a_token(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, token: str
) -> None:
    monkeypatch.setenv("SIGHTLINE_CLUSTER_TOKEN", token)
    arguments = {
        "run": [str(config), "--address", "127.0.0.1"],
        "worker": ["--head", "127.0.0.1", "--address", "127.0.0.1", "--capacity", "1"],
        "status": ["--controller", "127.0.0.1"],
        "drain": ["w1", "--controller", "127.0.0.1"],
        "retry": ["--controller", "127.0.0.1"],
    }

    assert execute(["cluster", command, *arguments[command]]) == 2
    assert "SIGHTLINE_CLUSTER_TOKEN" in capsys.readouterr().err


def test_a_cluster_without_ray_says_what_to_install(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(with_ray, "find_spec", lambda name: None)

    assert execute(["cluster", "run", str(config), "--address", "127.0.0.1"]) == 2
    assert "pip install 'sightline[cluster]'" in capsys.readouterr().err


@pytest.mark.parametrize("does", ["sleep 0 & exec sleep 600", "sleep 600 & exec sleep 600", "exit 1"])
def test_a_process_of_ray_that_has_died_while_it_starts_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    ray = tmp_path / "ray"
    ray.write_text(f"#!/bin/sh\n{does}\n")
    ray.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    machine = Machine("w1", "127.0.0.1", 1.0, 1, {}, str(tmp_path))
    node = with_ray.RayNode(("127.0.0.1", 1), "127.0.0.1", folder=None, machine=machine)

    if does.startswith("sleep 600"):
        assert all(node.goes_on() for _ in range(100))
    else:
        wait_until(lambda: not node.goes_on())
    node.leave()


def test_ray_of_each_address_has_a_folder_of_its_own_that_is_short_enough_for_sockets() -> None:
    longest = "session_2026-11-27_08-25-35_852237_1234567/sockets/plasma_store"
    addresses = ("10.0.0.1", "10.0.0.2", "fd00:1111:2222:3333:4444:5555:6666:7777")
    folders = {with_ray.folder_for(one) for one in addresses}

    assert len(folders) == len(addresses)
    assert all(len(str(one / longest)) < 108 for one in folders)
    assert all(":" not in str(one) for one in folders)


def test_a_worker_without_a_capacity_is_told_how_to_measure_it(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["cluster", "worker", "--head", "127.0.0.1:1", "--address", "127.0.0.1"]) == 2
    assert "--plan FILE with what `sightline plan CONFIG --json` has measured" in capsys.readouterr().err


def test_the_status_of_nobody_is_an_error(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert execute(["cluster", "status", "--controller", address]) == 2

    assert f"no controller runs at {address}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (["--label", "north"], "'north': give NAME=VALUE"),
        (["--name", "a b"], "a name has letters"),
        (["--head", "10.0.0.1:port"], "'10.0.0.1:port' is no address"),
        (["--plan", __file__], "give --capacity or --plan, not both"),
    ],
)
def test_wrong_options_of_a_worker_are_refused(
    config: Path, capsys: pytest.CaptureFixture[str], option: list[str], text: str
) -> None:
    arguments = ["cluster", "worker", "--head", "127.0.0.1:1", "--address", "127.0.0.1", "--capacity", "1"]

    assert execute([*arguments, *option]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ("{lease: 1s}", "lease is 1s: give three times heartbeat (1s) or more"),
        ("{moving: 2}", "cluster.moving"),
        ("{leases: 1s}", "cluster.leases"),
    ],
)
def test_a_wrong_section_is_a_mistake_of_the_file(
    config: Path, capsys: pytest.CaptureFixture[str], section: str, text: str
) -> None:
    config.write_text(f"sources: {{a: rtsp://10.0.0.9/a}}\ncluster: {section}\npipeline: [{{jsonl: a.jsonl}}]\n")

    assert execute(["cluster", "run", str(config), "--address", "127.0.0.1"]) == 2
    assert text in capsys.readouterr().err
