"""Signals, closed and full standard streams, poor surroundings: outputs are closed and readable, nothing hangs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from tests.conftest import missing
from tests.integration.figures import Record
from tests.integration.sources.clips import write_clip
from tests.integration.wrong_input.running import CONFIG, Mistake, call_apart, images_in, lines_of, steps

SINKS = "{jsonl: 'out/{stream}.jsonl'}, {video: {path: 'out/{stream}.mp4', gop: 200ms}}"
LONG = "sources: {cam: {uri: long.mp4, loop: true}}\n"
SLOW = """
import time
from pathlib import Path

def hang(batch):
    time.sleep(1)
    Path("hung").touch()
    time.sleep(1000)
"""


@contextmanager
def running(folder: Path, config: str, *, until: str) -> Iterator[subprocess.Popen[str]]:
    """A run that has got so far that the file `until` is there."""
    (folder / CONFIG).write_text(config)
    command = [sys.executable, "-m", "sightline.cli.main", "run", CONFIG]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (folder / until).exists():
            Event().wait(0.01)
        yield process
        process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_in_the_middle_of_a_file_leaves_outputs_closed_and_readable(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    write_clip(tmp_path / "long.mp4", count=100)

    with running(tmp_path, steps(SINKS, sources=LONG), until="out/cam.mp4") as process:
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=300)

    assert (process.returncode, stdout) == (code, "")
    assert "Traceback" not in stderr
    written = lines_of(tmp_path / "out" / "cam.jsonl")
    assert written == list(range(len(written)))
    assert images_in(tmp_path / "out" / "cam.mp4") == len(written) > 0


@pytest.mark.row(id="C6")
def test_a_step_that_has_hung_for_a_second_is_left_behind_after_the_second_signal(
    tmp_path: Path, figure: Record
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    config = steps("{jsonl: out/a.jsonl}, {apply: 'slow.py:hang'}")

    with running(tmp_path, config, until="hung") as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while "stopping" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        stdout, stderr = process.communicate(timeout=300)
        seconds = time.monotonic() - begun

    assert process.returncode == 130
    assert stdout == ""
    assert "apply-1" in stderr
    assert "did not stop, and is left behind" in stderr
    figure("a step that has hung for a second is left behind after a second signal", seconds, limit=0.5, unit="s")
    assert "Traceback" not in stderr


def test_a_camera_that_never_answers_is_left_with_one_signal(tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        source = f"sources: {{cam: 'rtsp://127.0.0.1:{reserved.getsockname()[1]}/a'}}\n"
        config = steps(f"{{apply: 'slow.py:hang'}}, {SINKS}", sources=source)
        (tmp_path / "slow.py").write_text(SLOW)
        with running(tmp_path, config, until=CONFIG) as process:
            assert process.stderr is not None
            while "trying again" not in process.stderr.readline():
                pass
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=300)

    assert process.returncode == 130
    assert "Traceback" not in stderr


@pytest.mark.parametrize("arguments", [["elements"], ["schema"], ["check", CONFIG], ["doctor"]])
def test_a_reader_that_goes_away_leaves_no_traceback(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text(steps(SINKS))
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        [sys.executable, "-m", "sightline.cli.main", *arguments],
        cwd=tmp_path,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=300,
    )
    os.close(writing)

    assert done.stderr == ""


def test_a_full_standard_output_is_one_message(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sightline.cli.main", "elements"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
            cwd=tmp_path,
        )

    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


@pytest.mark.parametrize("closed", [1, 2])
def test_closed_standard_streams_do_no_harm(closed: int, tmp_path: Path) -> None:
    plain_run = Mistake(steps(SINKS), (), arguments=("run", CONFIG))

    outcome = call_apart(plain_run, tmp_path, prepare=lambda: os.close(closed))

    assert outcome.code == 0
    assert lines_of(tmp_path / "out" / "cam.jsonl") == list(range(5))


POOR: dict[str, Mapping[str, str]] = {
    "locale C": {"LC_ALL": "C", "LANG": "C"},
    "no home": {"HOME": "/nonexistent"},
    "home that cannot be written": {"HOME": "/proc/self"},
    "no terminal": {"TERM": "dumb", "COLUMNS": "0"},
    "nothing to search": {"PATH": ""},
}


@pytest.mark.row(id="D8")
@pytest.mark.parametrize("name", POOR)
def test_it_runs_in_poor_surroundings(name: str, tmp_path: Path, figure: Record) -> None:
    text = "{jsonl: 'out/straße-{stream}.jsonl'}, draw, {video: 'out/{stream}.mp4'}"

    outcome = call_apart(Mistake(steps(text), (), arguments=("run", CONFIG), environment=POOR[name]), tmp_path)

    figure("surroundings in which it does not run", outcome.code != 0, limit=0, unit="")
    assert outcome.code == 0, outcome.stderr
    assert outcome.stdout == ""
    assert "5 frames" in outcome.stderr
    assert lines_of(tmp_path / "out" / "straße-cam.jsonl") == list(range(5))


APART = ["unshare", "--user", "--mount"]
WITHOUT_PROC = 'mount -t tmpfs none /proc && exec "$@"'
PLACES: dict[str, list[str]] = {
    "as root": [*APART, "--map-root-user"],
    "as nobody": APART,
    "without /proc": [*APART, "--map-root-user", "sh", "-c", WITHOUT_PROC, "sh"],
}


@pytest.mark.row(id="D8")
@pytest.mark.parametrize("name", PLACES)
def test_it_runs_whoever_it_is_and_without_proc(name: str, tmp_path: Path, figure: Record) -> None:
    if subprocess.run([*PLACES[name], "true"], capture_output=True, check=False).returncode:
        missing("namespaces are not allowed here")
    (tmp_path / CONFIG).write_text(steps(SINKS))

    command = [*PLACES[name], sys.executable, "-m", "sightline.cli.main", "run", CONFIG]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)

    figure("surroundings in which it does not run", done.returncode != 0, limit=0, unit="")
    assert done.returncode == 0, done.stderr
    assert lines_of(tmp_path / "out" / "cam.jsonl") == list(range(5))
    assert images_in(tmp_path / "out" / "cam.mp4") == 5
