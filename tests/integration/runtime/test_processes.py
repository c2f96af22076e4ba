"""A pipeline in several processes: the results of one process, and what workers that fail cost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.errors import OperatorError
from sightline.graph import Message, MessageKind, StreamState
from sightline.runtime.processes.run import ProcessRunner
from sightline.runtime.processes.share import Share
from sightline.runtime.stats.report import Report
from tests.integration.runtime.process_steps import Broken, Fault
from tests.waiting import wait_until

CLIPS = Path(__file__).parents[3] / "sample_videos"
COUNTED: dict[str, Any] = {"pattern": "counter", "frames": 60, "size": [96, 64]}
LINE = {"lines": {"a": {"from": [0.1, 0.6], "to": [0.9, 0.6]}}}
REPLAY = {"replay": {"path": f"{CLIPS}/{{stream}}.mot.txt", "format": "mot", "label": "car"}}


def records(path: Path) -> dict[str, list[bytes]]:
    """The lines of each stream, in their order."""
    found = defaultdict(list)
    for line in path.read_bytes().splitlines():
        found[json.loads(line)["stream"]].append(line)
    return found


def frames(path: Path) -> dict[str, list[int]]:
    """The numbers of the frames of each stream in the records."""
    return {stream: [json.loads(line)["frame"] for line in lines] for stream, lines in records(path).items()}


def run_clips(folder: Path, *, processes: int) -> Report:
    names = ("gate", "dusk", "street")
    pipeline = Pipeline(
        sources={name: f"{CLIPS}/{name}.mp4" for name in names},
        steps=[REPLAY, "track", LINE, {"jsonl": "all.jsonl"}, {"csv": "{stream}.csv"}, {"sqlite": "all.db"}],
        processes=processes,
        outputs=folder,
    )
    return pipeline.run(frames=60)


def test_results_of_two_processes_are_those_of_one(tmp_path: Path) -> None:
    one, two = (run_clips(tmp_path / str(count), processes=count) for count in (1, 2))

    assert records(tmp_path / "2" / "all.jsonl") == records(tmp_path / "1" / "all.jsonl")
    for name in ("gate", "dusk", "street"):
        assert (tmp_path / "2" / f"{name}.csv").read_bytes() == (tmp_path / "1" / f"{name}.csv").read_bytes()
    reports = [one.to_json(), two.to_json()]
    for key in ("frames", "totals"):
        assert reports[0][key] == reports[1][key]
    assert [set(report["elements"]) for report in reports] == [set(reports[0]["elements"])] * 2
    assert [report["elements"]["jsonl-1"]["frames"] for report in reports] == [180, 180]
    assert [Path(path).name for path in two.outputs].count("all.jsonl") == 1


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("crash", "worker 1 was killed by SIGABRT in File"),
        ("hang", "worker 1 gave no sign of life for 3 s, and was killed"),
        ("leak", "MB of memory, where 400 MB are allowed, and was killed"),
    ],
)
def test_a_worker_that_fails_is_reported_and_its_streams_come_back(tmp_path: Path, kind: str, told: str) -> None:
    fault = Fault.model_validate({"kind": kind, "stream": "a", "at": 20, "marker": str(tmp_path / "marker")})
    pipeline = Pipeline(
        sources=dict.fromkeys(("a", "b", "c"), COUNTED),
        steps=[fault, {"jsonl": "all.jsonl"}],
        processes={"count": 2, "hang_timeout": "3s" if kind == "hang" else "60s", "memory_limit": "400MB"},
        outputs=tmp_path,
    )
    messages: list[Message] = []
    pipeline.on_message(messages.append)

    report = pipeline.run()

    lost = [one for one in messages if one.kind is MessageKind.WORKER_LOST]
    assert len(lost) == 1
    assert told in lost[0].text
    assert {one.stream for one in messages if one.state is StreamState.LOST} <= {"a", "c"}
    assert frames(tmp_path / "all.jsonl") == {name: list(range(60)) for name in ("a", "b", "c")}
    assert [(one.state, one.received, one.finished) for one in report.streams] == [(StreamState.ENDED, 60, 60)] * 3


def shares(pipeline: Pipeline) -> list[Share]:
    assert isinstance(pipeline._runner, ProcessRunner)
    return pipeline._runner.shares


def test_workers_that_are_killed_lose_no_frames_of_files(tmp_path: Path) -> None:
    chance, kills = random.Random(7), 0
    pipeline = Pipeline(
        sources={name: {**COUNTED, "frames": 1000, "fps": 200, "realtime": True} for name in ("a", "b", "c", "d")},
        steps=[{"jsonl": "all.jsonl"}],
        processes=2,
        outputs=tmp_path,
    )
    with pipeline:
        while kills < 4 and (running := [share for share in shares(pipeline) if share.running]):
            share = chance.choice(running)
            enough, restarts = share.progress + chance.randrange(5, 120), share.restarts
            wait_until(lambda share=share, enough=enough: share.progress >= enough or not share.running)  # type: ignore[misc]
            pid = share.pid
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                kills += 1
                wait_until(lambda share=share, restarts=restarts: share.restarts > restarts or not share.running)  # type: ignore[misc]
        report = pipeline.wait()

    assert kills
    assert frames(tmp_path / "all.jsonl") == {name: list(range(1000)) for name in ("a", "b", "c", "d")}
    assert all(stream.dropped.total() == 0 for stream in report.streams)


def test_streams_come_to_the_worker_with_the_least_load_and_go(tmp_path: Path) -> None:
    endless = {**COUNTED, "frames": None, "realtime": True}
    pipeline = Pipeline(
        sources={"a": endless}, steps=[{"jsonl": "all.jsonl"}], processes=2, keep_running=True, outputs=tmp_path
    )
    with pipeline:
        pipeline.add_source("b", endless).wait(300)
        placed = [list(share.sources) for share in shares(pipeline)]
        wait_until(lambda: len(pipeline.status()) == 2 and all(one.frames > 2 for one in pipeline.status()))
        pipeline.pause("a").wait(300)
        wait_until(lambda: pipeline.status()[0].state is StreamState.PAUSED)
        pipeline.remove_source("b").wait(300)
        names = [one.name for one in pipeline.status()]

    assert sorted(placed) == [["a"], ["b"]]
    assert names == ["a"]
    assert set(frames(tmp_path / "all.jsonl")) == {"a", "b"}


@pytest.mark.parametrize("where", ["worker", "main process"])
def test_an_error_of_a_step_ends_the_run(tmp_path: Path, where: str) -> None:
    fault = Fault(kind="raise", stream="a", at=20, marker=str(tmp_path / "marker"))
    pipeline = Pipeline(
        sources={"a": COUNTED, "b": COUNTED},
        steps=[fault if where == "worker" else Broken(at=20)],
        processes=2,
        outputs=tmp_path,
    )

    with pytest.raises(OperatorError) as raised:
        pipeline.run()

    assert raised.value.element == ("fault-1" if where == "worker" else "broken-1")
    assert not pipeline.is_running


def test_nothing_is_left_when_the_main_process_is_killed(tmp_path: Path) -> None:
    program = (
        "from sightline import Pipeline\n"
        "if __name__ == '__main__':\n"
        "    source = {'pattern': 'counter', 'frames': None, 'realtime': True}\n"
        f"    pipeline = Pipeline(sources={{'a': source, 'b': source}}, processes=2, outputs={str(tmp_path)!r})\n"
        "    pipeline.start()\n"
        "    print(*[share.pid for share in pipeline._runner.shares], flush=True)\n"
        "    pipeline.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        sockets, shared = _sockets(pids), _shared_memory(pids)
        process.kill()

    assert len(pids) == 2
    assert sockets
    assert shared == set()
    wait_until(lambda: not any(_runs(pid) for pid in pids))
    wait_until(lambda: not sockets & {line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines()[1:]})


def _sockets(pids: list[int]) -> set[str]:
    """The numbers of the sockets that processes have open."""
    links = [str(one.readlink()) for pid in pids for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink()]
    return {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:")}


def _shared_memory(pids: list[int]) -> set[str]:
    """The files in shared memory that processes have open or mapped."""
    maps = [line.split()[-1] for pid in pids for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {path for path in maps if path.startswith("/dev/shm")}


def _runs(pid: int) -> bool:
    try:
        return "processes.child" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
