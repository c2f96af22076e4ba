"""What becomes of workers that end, or do not: real processes, that are small so that many can be started."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from sightline.errors import ConfigurationError
from sightline.graph import Message, MessageKind
from sightline.runtime.processes import restarts
from sightline.runtime.processes.restarts import Backoff
from sightline.server.supervisor import supervised
from sightline.server.supervisor.lifecycle import SupervisedState, SupervisedStatus
from sightline.server.supervisor.supervised import WorkerOptions
from sightline.server.supervisor.supervisor import Supervisor
from tests.integration.server.test_several import is_alive

OPTIONS = WorkerOptions(
    command=(sys.executable, str(Path(__file__).with_name("small_worker.py"))),
    environment=dict(os.environ),
    end_timeout=1.0,
)
PATIENCE_SECONDS = 300.0


@dataclass
class Run:
    """A supervisor that runs in the event loop of the test."""

    supervisor: Supervisor
    messages: list[tuple[str, Message]] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)

    def status(self, name: str = "gate") -> SupervisedStatus | None:
        return next((one for one in self.supervisor.pipelines() if one.name == name), None)

    async def wait_for(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"it did not become so: {self.supervisor.pipelines()}"
            await asyncio.sleep(0.01)

    async def state(self, wanted: SupervisedState, name: str = "gate") -> SupervisedStatus:
        def found() -> bool:
            status = self.status(name)
            return status is not None and status.state is wanted

        await self.wait_for(found)
        status = self.status(name)
        assert status is not None
        return status


@pytest.fixture(autouse=True)
def _runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="serve-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


def supervise(
    place: Path, check: Callable[[Run], Awaitable[None]], *, options: WorkerOptions = OPTIONS, is_killed: bool = False
) -> Run:
    """Supervise a file or folder while the check runs; end it regularly, or by killing all."""

    async def supervised_check() -> Run:
        messages: list[tuple[str, Message]] = []
        lines: list[tuple[str, str]] = []
        supervisor = Supervisor(
            [place],
            options,
            post=lambda name, message: messages.append((name, message)),
            say=lambda name, line: lines.append((name, line)),
        )
        run = Run(supervisor, messages, lines)
        running = asyncio.ensure_future(supervisor.run())
        try:
            await run.wait_for(lambda: run.status() is not None or running.done())
            await check(run)
        finally:
            (supervisor.abort if is_killed else supervisor.stop)()
            await running
        return run

    return asyncio.run(supervised_check())


def put(folder: Path, text: str, name: str = "gate") -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(text)
    return file


def test_ten_crashes_in_a_row_back_off_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "Backoff", partial(Backoff, first_seconds=0.01))
    monkeypatch.setattr(restarts, "_LONGEST_SECONDS", 0.2)

    async def check(run: Run) -> None:
        await run.wait_for(lambda: (run.status() or pytest.fail("gone")).failures_in_a_row >= 11)
        status = await run.state(SupervisedState.BACKING_OFF)
        assert status.why.startswith("it was killed by SIGSEGV (1")
        assert status.next_attempt_seconds is not None
        assert status.restarts >= 10

    run = supervise(put(tmp_path, "crash"), check)

    texts = [message.text for _, message in run.messages]
    waits = [text.rpartition(" in ")[2] for text in texts if "next attempt" in text]
    assert len(waits) >= 11
    (told,) = [message for _, message in run.messages if "10 times in a row" in message.text]
    assert (told.kind, told.data) == (MessageKind.ERROR, {"failures": 10})


def test_the_waits_are_those_of_the_backoff(tmp_path: Path) -> None:
    async def check(run: Run) -> None:
        await run.wait_for(lambda: sum("next attempt" in message.text for _, message in run.messages) >= 3)

    run = supervise(put(tmp_path, "exit 1"), check)

    waits = [text.rpartition("; ")[2] for text in (message.text for _, message in run.messages) if "next" in text]
    assert waits[:3] == ["next attempt in 1 s", "next attempt in 2 s", "next attempt in 4 s"]


def test_what_a_worker_writes_is_kept_without_secrets_and_bounded(tmp_path: Path) -> None:
    async def check(run: Run) -> None:
        status = await run.state(SupervisedState.BACKING_OFF)
        assert status.last_exit is not None
        assert status.last_exit.code == 1
        assert "rtsp://***@10.0.0.7/main" in status.last_exit.reason
        assert max(map(len, status.last_exit.log)) <= 2000

    run = supervise(put(tmp_path, "exit 1"), check)

    assert "secret" not in repr((run.messages, run.lines))
    assert run.lines[0][0] == "gate"


@pytest.mark.parametrize(
    ("text", "state"),
    [("exit 0", SupervisedState.ENDED), ("exit 2", SupervisedState.INVALID), ("exit 3", SupervisedState.ENDED)],
)
def test_what_ended_or_is_wrong_is_started_when_its_file_changes(
    tmp_path: Path, text: str, state: SupervisedState
) -> None:
    file = put(tmp_path, text)

    async def check(run: Run) -> None:
        await run.state(state)
        file.write_text("answer")
        await run.state(SupervisedState.RUNNING)

    supervise(file, check)


def test_a_worker_that_answers_nothing_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "_START_SECONDS", 1.0)

    async def check(run: Run) -> None:
        status = await run.state(SupervisedState.BACKING_OFF)
        assert status.why.startswith("it gave no answer for")

    supervise(put(tmp_path, "deaf"), check)


@pytest.mark.parametrize("is_killed", [False, True], ids=["asked to end", "killed"])
def test_the_end_of_a_server_is_the_end_of_a_worker_that_does_not_want_to(tmp_path: Path, is_killed: bool) -> None:
    pids: list[int] = []

    async def check(run: Run) -> None:
        await run.wait_for(lambda: run.status() is not None and (run.status() or pytest.fail("gone")).pid is not None)
        status = run.status()
        assert status is not None
        assert status.pid is not None
        pids.append(status.pid)

    supervise(put(tmp_path, "deaf"), check, is_killed=is_killed)

    assert not is_alive(pids[0])


def test_a_worker_that_an_earlier_server_left_is_waited_for_and_then_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker does not notice that its server is gone, as one whose interpreter is held."""
    monkeypatch.setattr(supervised, "_ORPHAN_SECONDS", 0.5)
    file = put(tmp_path, "deaf")
    earlier = f"""
import asyncio, os
from pathlib import Path
from sightline.server.supervisor.supervisor import Supervisor
from tests.integration.server.test_supervision import OPTIONS

async def main():
    supervisor = Supervisor([Path({str(file)!r})], OPTIONS, post=print, say=print)
    running = asyncio.ensure_future(supervisor.run())
    while not (found := supervisor.pipelines()) or found[0].pid is None:
        await asyncio.sleep(0.01)
    print(found[0].pid, flush=True)
    os._exit(0)

asyncio.run(main())
"""

    async def check(run: Run) -> None:
        await run.state(SupervisedState.RUNNING)

    command = [sys.executable, "-c", earlier]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.wait(PATIENCE_SECONDS)
    assert is_alive(pid)
    file.write_text("answer")
    run = supervise(file, check)

    assert not is_alive(pid)
    assert f"the process {pid} of an earlier server" in run.messages[0][1].text


def test_a_folder_has_pipelines_and_other_files(tmp_path: Path) -> None:
    put(tmp_path, "answer")
    put(tmp_path, "answer", name=".hidden")
    put(tmp_path, "answer", name="model")
    (tmp_path / "model.onnx").touch()
    (tmp_path / "notes.txt").touch()

    async def check(run: Run) -> None:
        await run.state(SupervisedState.RUNNING)
        assert [one.name for one in run.supervisor.pipelines()] == ["gate"]

    supervise(tmp_path, check)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    files = [put(tmp_path, "answer"), put(tmp_path / "a", "answer")]

    with pytest.raises(ConfigurationError, match="would have the same name 'gate'"):
        Supervisor(files, OPTIONS, post=lambda *_: None, say=lambda *_: None)
    with pytest.raises(ConfigurationError, match="does not exist"):
        Supervisor([tmp_path / "none.yaml"], OPTIONS, post=lambda *_: None, say=lambda *_: None)


def test_a_command_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    async def check(run: Run) -> None:
        status = await run.state(SupervisedState.BACKING_OFF)
        assert "cannot be started" in status.why

    supervise(put(tmp_path, "answer"), check, options=replace(OPTIONS, command=("/nowhere",)))
