"""`sightline ctl`, on a pipeline that runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from sightline.cli.main import cli, execute
from tests.integration.server.api.conftest import PLAZA, Steered
from tests.integration.server.conftest import endless, wait_for


@dataclass(frozen=True, slots=True)
class Done:
    """What a command has printed, and its exit code."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Ctl = Callable[..., Done]


@pytest.fixture
def ctl(steered: Steered, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ctl:
    """Call the command as an admin."""
    monkeypatch.setenv("SIGHTLINE_URL", steered.listener.url)
    monkeypatch.setenv("SIGHTLINE_TOKEN", str(steered.admin.token))

    def call(*arguments: str) -> Done:
        capsys.readouterr()
        code = execute(["ctl", *arguments])
        return Done(code, *capsys.readouterr())

    return call


def test_streams_are_listed(ctl: Ctl) -> None:
    first, gate, yard = ctl("streams").out.splitlines()

    assert first.split() == ["stream", "state", "frames/s", "dropped", "source"]
    assert gate.split()[:2] == ["gate", "live"]
    assert yard.split()[-1] == "bars"
    assert [one["name"] for one in ctl("streams", "--json").json()] == ["gate", "yard"]


def test_a_source_is_tried(ctl: Ctl, tmp_path: Path) -> None:
    image = tmp_path / "image.jpg"

    shown = ctl("test", json.dumps(endless(size=[64, 48])), "--output", str(image))
    refused = ctl("test", "rtsp://10.255.255.1/main", "--json")

    assert (shown.code, shown.out.split()[1].rstrip(",")) == (0, "64x48")
    assert image.read_bytes().startswith(b"\xff\xd8")
    assert refused.code == 1
    assert refused.json()["reason"] in ("unreachable", "silent")


def test_streams_come_rest_and_go(ctl: Ctl, tmp_path: Path) -> None:
    (tmp_path / "source.yaml").write_text(json.dumps(endless(pattern="counter")))

    assert ctl("add", "third", json.dumps(endless())).code == 0
    assert ctl("add", "third", "-f", str(tmp_path / "source.yaml")).code == 0
    assert ctl("pause", "third").code == 0
    assert next(one for one in ctl("streams").out.splitlines() if "third" in one).split()[1] == "paused"
    assert ctl("resume", "third", "--json").json()["name"] == "third"
    assert ctl("remove", "third").err.startswith("third is removed: configuration ")
    assert "third" not in ctl("streams").out


def test_rules_are_listed_shown_set_and_removed(ctl: Ctl, tmp_path: Path) -> None:
    (tmp_path / "rule.json").write_text(json.dumps(PLAZA))

    assert "zones-1/plaza" in ctl("rules").out
    assert ctl("rule", "zones-1/plaza").json() == PLAZA
    assert ctl("rule", "zones-1/second", "{polygon: [[0, 0], [1, 0], [1, 1]]}", "--json").json()["version"] > 1
    assert ctl("rule", "zones-1/third", "-f", str(tmp_path / "rule.json")).code == 0
    assert ctl("rule", "zones-1/plaza", "--remove").code == 0
    assert "already" in ctl("rule", "zones-1/second", "--rename", "third").err
    assert ctl("rule", "zones-1/second", "--rename", "fourth").err.startswith("zones-1/second is zones-1/fourth: ")
    assert [one["name"] for one in ctl("rules", "--json").json()] == ["gate_in", "third", "fourth"]


def test_counts_begin_anew(ctl: Ctl) -> None:
    assert ctl("reset", "zones-1").code == 0
    assert ctl("reset", "zones-1", "--stream", "gate").code == 0
    assert "barn" in ctl("reset", "zones-1", "--stream", "barn").err


def test_options_are_set_and_shown(ctl: Ctl) -> None:
    assert ctl("set", "zones-1.gone=3s", "zones-1.plaza.limit=3").code == 0

    shown = ctl("show", "zones-1", "--json").json()["options"]
    assert shown == {"plaza": {**PLAZA, "limit": 3}, "gone": "3s"}
    assert ctl("set", "zones-1.gone=null", "--prove", "0.5", "--json").json()["proven"]
    assert "gone" not in ctl("show", "zones-1").out
    assert "zones-1" in ctl("show").out
    assert ctl("show", "--json").json()["pipeline"]["name"] == "street"


def test_a_configuration_is_printed_changed_and_applied(ctl: Ctl, tmp_path: Path) -> None:
    file = tmp_path / "now.yaml"
    file.write_text("# mine\n" + ctl("config").out)

    assert "nothing changes" in ctl("apply", str(file)).err
    file.write_text(file.read_text().replace("plaza:", "square:"))
    tried = ctl("apply", str(file), "--dry-run")
    assert [line.strip("+- ") for line in tried.out.splitlines()[2:] if line[0] in "+-"] == ["plaza:", "square:"]
    assert "zones-1/plaza" in ctl("rules").out
    assert ctl("apply", str(file), "--prove", "0.5").err.startswith("applied: configuration ")
    assert "zones-1/square" in ctl("rules").out
    first = ctl("versions", "--json").json()[0]["etag"]
    assert first in ctl("versions").out
    assert ctl("rollback", "--to", first, "--prove", "0.5").code == 0
    assert "zones-1/plaza" in ctl("rules").out


def test_a_wrong_configuration_is_explained_and_not_applied(ctl: Ctl, tmp_path: Path) -> None:
    (tmp_path / "now.yaml").write_text(ctl("config").out.replace("polygon", "polygn"))

    done = ctl("apply", str(tmp_path / "now.yaml"))

    assert done.code == 2
    assert "polygn" in done.err
    assert ctl("versions", "--json").json()[-1]["version"] == 1


def test_a_snapshot_is_written(ctl: Ctl, tmp_path: Path) -> None:
    assert ctl("snapshot", "gate", "-o", str(tmp_path / "x.jpg")).code == 0

    assert (tmp_path / "x.jpg").read_bytes().startswith(b"\xff\xd8")


def test_events_are_printed(ctl: Ctl, steered: Steered) -> None:
    steered.operator.ask("streams/yard/pause", "POST")
    wait_for(lambda: "yard" in ctl("events", "--recent", "20").out)

    *_, last = ctl("events", "--recent", "20", "--json").out.splitlines()
    assert json.loads(last)["record"] in ("event", "message")
    assert ctl("events", "--recent", "3", "--stream", "gate").code == 2


def test_the_history_is_printed(ctl: Ctl) -> None:
    wait_for(lambda: "fps" in ctl("history", "fps", "objects", "--stream", "gate", "--step", "10m").out)

    head, first, *_ = ctl("history", "fps", "--since", "30m").out.splitlines()
    assert head.split() == ["time", "stream", "series", "key", "value"]
    assert "gate" in first
    assert json.loads(ctl("history", "fps", "--json").out)["columns"][0]["series"] == "fps"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["remove", "nobody"], 2, "there is no stream 'nobody'; streams: gate, yard"),
        (["rule", "plaza"], 2, "such as zones-1/plaza"),
        (["rule", "zones-1/plaza", "{polygon: [[0, 0]]}"], 2, "at least 3"),
        (["rule", "zones-1/plaza", "[1]"], 2, "in braces"),
        (["rule", "zones-1/plaza", "{a: "], 2, "OPTIONS"),
        (["rule", "zones-1/plaza", "{}", "--remove"], 2, "takes no options"),
        (["set", "zones-1"], 2, "STEP.OPTION=VALUE"),
        (["set", "zones-1.gone=3s", "lines-1.gone=3s"], 2, "one step at a time"),
        (["set", "zones-1.gone=3s", "zones-1.gone.x=1"], 2, "below a value"),
        (["history", "fsp"], 2, "occupancy"),
        (["history", "fps", "--since", "soon"], 2, "--since"),
        (["add", "x"], 2, "give either SOURCE or --file"),
        (["add", "x", "/etc/passwd"], 2, "--allow-files"),
        (["record", "gate"], 2, "record"),
        (["--pipeline", "other", "streams"], 2, "there is no pipeline 'other'"),
        (["--token", "wrong-wrong-wrong", "streams"], 1, "token"),
        (["--url", "http://127.0.0.1:9", "streams"], 1, "does not answer"),
        (["--url", "here", "streams"], 2, "no address"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_an_exit_code(ctl: Ctl, arguments: list[str], code: int, said: str) -> None:
    done = ctl(*arguments)

    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "incomplete", "found"),
    [
        (["ctl", "remove"], "", ["gate", "yard"]),
        (["ctl", "snapshot"], "g", ["gate"]),
        (["ctl", "rule"], "z", ["zones-1/plaza"]),
        (["ctl", "show"], "tr", ["track-1"]),
        (["ctl", "--url", "http://127.0.0.1:9", "remove"], "", []),
        (["ctl"], "sn", ["snapshot"]),
    ],
)
def test_names_are_completed_by_asking(ctl: Ctl, arguments: list[str], incomplete: str, found: list[str]) -> None:
    completion = ShellComplete(cli, {}, "sightline", "_SIGHTLINE_COMPLETE")

    assert [one.value for one in completion.get_completions(arguments, incomplete)] == found
