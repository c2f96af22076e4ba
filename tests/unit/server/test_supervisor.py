"""The parts of the supervision that need no process: waits, names, locks, metrics."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sightline.errors import ConfigurationError
from sightline.runtime.processes.restarts import Backoff, signal_name
from sightline.server.supervisor.claim import Claim, runtime_folder
from sightline.server.supervisor.exposition import merged
from sightline.server.supervisor.lifecycle import SupervisedState, state_after
from sightline.server.supervisor.supervisor import pipeline_name


def test_waits_double_up_to_a_minute() -> None:
    backoff = Backoff()

    assert [backoff.fail(ran_seconds=1) for _ in range(9)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert backoff.failures == 9


def test_a_minute_of_running_begins_the_waits_anew() -> None:
    backoff = Backoff()
    for _ in range(8):
        backoff.fail(ran_seconds=59.9)

    assert (backoff.fail(ran_seconds=60), backoff.failures) == (1, 1)


@pytest.mark.parametrize(
    ("code", "has_answered", "state"),
    [
        (0, True, SupervisedState.ENDED),
        (3, True, SupervisedState.ENDED),
        (1, True, SupervisedState.BACKING_OFF),
        (2, False, SupervisedState.INVALID),
        (2, True, SupervisedState.BACKING_OFF),
        (-11, False, SupervisedState.BACKING_OFF),
    ],
)
def test_what_a_pipeline_is_after_its_worker_ended(code: int, has_answered: bool, state: SupervisedState) -> None:
    assert state_after(code, has_answered=has_answered) is state


@pytest.mark.parametrize(("code", "name"), [(-11, "SIGSEGV"), (-9, "SIGKILL"), (-63, "signal 63"), (0, None)])
def test_signals_are_named(code: int, name: str | None) -> None:
    assert signal_name(code) == name


@pytest.mark.parametrize(
    ("file", "name"),
    [("gate.yaml", "gate"), ("main street.v2.yaml", "main-street.v2"), ("tür/../x%2f.yaml", "x-2f"), ("ü.yaml", "-")],
)
def test_the_name_of_a_pipeline_fits_into_an_address(file: str, name: str) -> None:
    assert pipeline_name(Path(file)) == name


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for sockets; its name is short, as those of sockets have to be."""
    with tempfile.TemporaryDirectory(prefix="serve-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def test_a_file_is_run_by_one_server(runtime: Path) -> None:
    first = Claim(Path("a.yaml"))

    with pytest.raises(ConfigurationError, match="is run by another"):
        Claim(Path("a.yaml"))
    Claim(Path("b.yaml")).close()
    first.close()
    Claim(Path("a.yaml")).close()


def test_the_lock_of_a_worker_lasts_as_long_as_one_copy_of_it(runtime: Path) -> None:
    claim = Claim(Path("a.yaml"))
    lock = claim.take()
    assert lock is not None
    copy = os.dup(lock)
    claim.note(lock, 123456)

    os.close(lock)
    assert claim.take() is None
    assert claim.holder() == 123456
    os.close(copy)
    again = claim.take()
    assert again is not None
    os.close(again)
    claim.close()


def test_only_the_owner_gets_at_the_socket(runtime: Path) -> None:
    claim = Claim(Path("a.yaml"))
    with claim.listen():
        folders = [claim.socket.parent, claim.socket.parent.parent]
        assert [stat.S_IMODE(one.stat().st_mode) for one in folders] == [0o700, 0o700]
    claim.close()
    assert not claim.socket.exists()


@pytest.mark.parametrize("trap", ["open", "link", "file"])
def test_a_folder_that_others_may_enter_is_refused(runtime: Path, trap: str) -> None:
    folder = runtime / "sightline"
    if trap == "open":
        folder.mkdir()
        folder.chmod(0o755)
    elif trap == "link":
        (runtime / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(runtime / "elsewhere")
    else:
        folder.touch()

    with pytest.raises(ConfigurationError, match=str(folder)):
        runtime_folder()


def test_a_path_that_is_too_long_for_a_socket_is_refused(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = runtime / ("x" * 90)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))

    with pytest.raises(ConfigurationError, match="too long for a socket"):
        Claim(Path("a.yaml"))


def test_metrics_of_several_pipelines_are_one_exposition() -> None:
    texts = {
        "a": '# HELP up Whether.\n# TYPE up gauge\nup 1\n# HELP n Number.\n# TYPE n counter\nn{x="1"} 2\nn{x="2"} 3\n',
        "b": '# HELP up Whether.\n# TYPE up gauge\nup{pipeline="own \\" name",y="}"} 0\n',
    }

    assert merged(texts).splitlines() == [
        "# HELP up Whether.",
        "# TYPE up gauge",
        'up{pipeline="a"} 1',
        'up{pipeline="b",y="}"} 0',
        "# HELP n Number.",
        "# TYPE n counter",
        'n{pipeline="a",x="1"} 2',
        'n{pipeline="a",x="2"} 3',
    ]


def test_half_an_exposition_harms_no_other() -> None:
    assert merged({"a": "up", "b": "# TYPE up gauge\nup 1\n"}).splitlines() == ["# TYPE up gauge", 'up{pipeline="b"} 1']
