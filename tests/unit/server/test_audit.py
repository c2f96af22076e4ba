"""The audit log holds every change, whole and in order, and no secret."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sightline.config import parse_steps, source_from
from sightline.errors import ConfigurationError, OutputError
from sightline.graph import Outputs, PipelineDescription
from sightline.server.audit import Actor, AuditLog, differences
from sightline.server.policy import Policy

ACTOR = Actor("anna", "operator", "10.0.0.9")
SECRETS = [f"canary{number:02}0123456789" for number in range(12)]


def described(*steps: object, **sources: object) -> PipelineDescription:
    read = {name: source_from(source) for name, source in sources.items()}  # type: ignore[arg-type]
    return PipelineDescription(sources=read, steps=parse_steps(list(steps)))


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_change_has_a_line_before_it_and_one_after_it(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "logs" / "audit.jsonl")
    before, after = described(), described(gate="rtsp://me:secret@10.0.0.7/x")
    with log.change(ACTOR, "add stream", target="sources.gate", changes=differences(before, after)):
        assert len(records(log.path)) == 1
    first, second = records(log.path)
    wanted = {"actor": "anna", "role": "operator", "address": "10.0.0.9", "action": "add stream"}
    changes = [{"path": "sources.gate", "after": {"rtsp": {"uri": "rtsp://***@10.0.0.7/x"}}}]
    assert first.items() >= {**wanted, "target": "sources.gate"}.items()
    assert first["changes"] == changes
    assert (second["id"], second["result"]) == (first["id"], "done")
    assert first["time"] <= second["time"]


@pytest.mark.parametrize(
    ("error", "result", "text"),
    [
        (ConfigurationError("rtsp://me:secret@x is wrong"), "refused", "rtsp://***@x is wrong"),
        (RuntimeError("broken\nline"), "failed", "RuntimeError: broken\nline"),
        (KeyboardInterrupt(), "failed", "KeyboardInterrupt: "),
    ],
)
def test_how_a_change_ended_is_there(tmp_path: Path, error: BaseException, result: str, text: str) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    with pytest.raises(type(error)), log.change(ACTOR, "apply", target="pipeline"):
        raise error
    assert records(log.path)[1].items() >= {"result": result, "error": text}.items()


def test_nothing_is_changed_when_the_log_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "precious").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    os.mkfifo(tmp_path / "pipe")
    changed = False
    for path in (tmp_path / "file" / "audit", tmp_path / "link", tmp_path / "pipe", tmp_path):
        with pytest.raises(OutputError, match="cannot"), AuditLog(path).change(ACTOR, "apply", target="pipeline"):
            changed = True
    assert not changed
    assert (tmp_path / "precious").read_text() == "x"


def test_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(0o666)
    path.chmod(0o666)
    with AuditLog(path).change(ACTOR, "apply", target="pipeline"):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_full_files_are_kept_under_numbers_and_the_oldest_goes(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", most_bytes=1000, kept_files=2)
    for number in range(40):
        with log.change(ACTOR, "apply", target=f"number {number}"):
            pass
    files = [tmp_path / name for name in ("audit.jsonl.2", "audit.jsonl.1", "audit.jsonl")]
    assert {*tmp_path.iterdir()} == {*files}
    assert all(file.stat().st_size <= 1000 for file in files)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    kept = [record for file in files for record in records(file)]
    targets = [record["target"] for record in kept if "target" in record]
    assert targets == [f"number {number}" for number in range(40 - len(targets), 40)]


def _change_often(path: Path, name: str) -> None:
    log = AuditLog(path, most_bytes=20_000, kept_files=100)
    threads = [threading.Thread(target=_changes, args=(log, f"{name}-{number}")) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _changes(log: AuditLog, name: str) -> None:
    for number in range(40):
        with log.change(ACTOR, "apply", target=f"{name} {number}"):
            pass


def test_threads_and_processes_share_a_log_and_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    path = tmp_path / "audit.jsonl"
    processes = [context.Process(target=_change_often, args=(path, f"process {number}")) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    kept = [record for file in tmp_path.iterdir() for record in records(file)]
    targets = [record["target"] for record in kept if "target" in record]
    assert len(targets) == len({*targets}) == 160
    assert sum(record.get("result") == "done" for record in kept) == 160
    assert len([*tmp_path.iterdir()]) > 1


def test_a_change_of_endless_size_has_a_line_all_the_same(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    with log.change(ACTOR, "apply", target="x" * 100_000, changes=[{"path": "y", "after": "z" * 1_000_000}]):
        pass
    first = records(log.path)[0]
    assert first["changes"].startswith("left out: ")
    assert len(first["target"]) == 1000


def test_differences_name_each_value() -> None:
    zone = {"zones": {"yard": {"polygon": [[0, 0], [1, 0], [1, 1]]}}}
    moved = {"zones": {"yard": {"polygon": [[0, 0], [1, 0], [0, 1]]}}}
    before = described(zone, {"jsonl": "a.jsonl"}, gate={"pattern": "bars"}, yard={"pattern": "bars"})
    after = described({"jsonl": "b.jsonl"}, moved, gate={"pattern": "bars", "frames": 5}, lane={"pattern": "solid"})
    found = {one["path"]: (one.get("before"), one.get("after")) for one in differences(before, after)}
    assert found.keys() == {
        *("sources.gate.frames", "sources.yard", "sources.lane", "steps.zones-1.yard", "steps.jsonl-1.path", "steps"),
    }
    assert found["steps.jsonl-1.path"] == ("a.jsonl", "b.jsonl")
    assert found["steps"] == (["zones-1", "jsonl-1"], ["jsonl-1", "zones-1"])
    assert differences(before, before) == []
    nested = described({"tee": {"a": [zone]}}, {"jsonl": "a.jsonl"}, gate={"pattern": "bars"}, yard={"pattern": "bars"})
    assert [one["path"] for one in differences(before, nested)] == ["steps"]


def secret_pipeline(host: str, *, number: int) -> PipelineDescription:
    """A pipeline with a secret in every kind of place."""
    one = SECRETS[number : number + 6]
    images: Mapping[str, object] = {
        "send": "events",
        "image": "crop",
        "image_store": {"url": f"s3://{host}/x", "access_key": one[0], "secret_key": one[1]},
    }
    return described(
        {
            "webhook": {
                "url": f"https://me:{one[2]}@{host}/x?token={one[3]}",
                "secret": one[4],
                "headers": {"A": one[5]},
            }
        },
        {"mqtt": {"url": f"mqtt://me:{one[0]}@{host}", **images}},
        {"kafka": {"url": f"kafka://me:{one[1]}@{host}", "options": {"ssl.key.password": one[2]}}},
        {"publish": {"rtsp": "127.0.0.1:8554/{stream}", "token": one[3], "url": f"rtsp://me:{one[4]}@{host}/x"}},
        gate=f"rtsp://me:{one[5]}@{host}/x?password={one[0]}",
        yard=f"http://me:{one[1]}@{host}/x.mp4",
    )


def test_no_secret_is_in_the_log_nor_in_any_refusal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log, outputs = AuditLog(tmp_path / "audit.jsonl"), Outputs(tmp_path)
    empty, before, after = described(), secret_pipeline("127.0.0.1", number=0), secret_pipeline("localhost", number=6)
    texts = []
    for policy in (Policy(), Policy(allow_code=True, hosts={"localhost"}, schemes={"http"})):
        for old, new in ((empty, before), (before, after), (after, empty), (before, before)):
            refused = policy.problems(new, changed_from=old, outputs=outputs)
            texts += [str(problem) for problem in refused]
            try:
                with log.change(ACTOR, "apply", target="pipeline", changes=differences(old, new)):
                    raise ConfigurationError("\n".join(problem.message for problem in refused))
            except ConfigurationError as error:
                texts.append(str(error))
    written = log.path.read_text()
    everything = "".join([written, *texts, *capfd.readouterr()])
    assert [secret for secret in SECRETS if secret in everything] == []
    assert written.count("***") > 50
    assert len(texts) > 20
    assert all(secret in repr(before.to_plain()) + repr(after.to_plain()) for secret in SECRETS), "they are planted"
