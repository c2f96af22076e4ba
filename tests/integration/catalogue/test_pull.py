"""`sightline models pull` from a real server that stalls, lies and breaks off: right, or one error and nothing."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from sightline.cli.main import execute
from sightline_plugins.catalogue import find_entry
from sightline_plugins.store import Store
from tests.integration.catalogue.server import Behaviour, serving

NAME = "yunet"
COMMAND = [sys.executable, "-m", "sightline.cli.main", "models", "pull", NAME]


@pytest.fixture(scope="module")
def content(shared_data: Path) -> bytes:
    return (shared_data / "models" / "yunet_n_dynamic.onnx").read_bytes()


def environment(folder: Path, mirror: str) -> dict[str, str]:
    own = {"SIGHTLINE_MODELS": str(folder), "SIGHTLINE_MODELS_MIRROR": mirror, "NO_PROXY": "127.0.0.1"}
    return {**os.environ, **own}


def pull(folder: Path, mirror: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Call the command in this process."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in environment(folder, mirror).items():
            patch.setenv(name, value)
        code = execute(["models", "pull", NAME, "--accept-licence", *options])
    return subprocess.CompletedProcess(options, code, out.getvalue(), err.getvalue())


def pull_apart(folder: Path, mirror: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "--accept-licence", *options],
        env=environment(folder, mirror),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def model_in(store: Path) -> Path:
    """Where the store has the model once it was pulled."""
    return store / NAME / "1" / f"{NAME}.onnx"


def failure(folder: Path, behaviour: Behaviour, *options: str) -> str:
    """The message of a pull that has to fail; no model may be there then."""
    with serving(behaviour) as mirror:
        done = pull(folder, mirror, *options)
    assert done.returncode == 1, done.stderr
    assert not (folder / NAME).exists()
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in done.stderr
    return line


def test_a_pulled_model_is_whole_and_has_its_card(tmp_path: Path, content: bytes) -> None:
    with serving(Behaviour(content)) as mirror:
        done = pull_apart(tmp_path, mirror)

    assert done.returncode == 0, done.stderr
    assert model_in(tmp_path).read_bytes() == content
    assert sorted(path.name for path in (tmp_path / NAME / "1").iterdir()) == [
        "licence.txt",
        "model.json",
        f"{NAME}.onnx",
        f"{NAME}.yaml",
    ]
    assert Store(tmp_path).find(NAME).damage is None


def test_a_model_that_is_here_is_not_asked_for_again(tmp_path: Path, content: bytes) -> None:
    behaviour = Behaviour(content)
    with serving(behaviour) as mirror:
        pull(tmp_path, mirror)
        again = pull(tmp_path, mirror)

    assert again.returncode == 0
    assert len(behaviour.asked) == 1


def test_a_download_that_breaks_off_goes_on_where_it_ended(tmp_path: Path, content: bytes) -> None:
    behaviour = Behaviour(content, breaks=[100_000, 50_000])
    with serving(behaviour) as mirror:
        done = pull(tmp_path, mirror)

    assert done.returncode == 0, done.stderr
    assert behaviour.asked == ["", "bytes=100000-", "bytes=150000-"]
    assert model_in(tmp_path).read_bytes() == content


def test_what_was_received_is_kept_for_the_next_attempt(tmp_path: Path, content: bytes) -> None:
    message = failure(tmp_path, Behaviour(content, breaks=[1000, 1000, 1000]))
    assert "the connection broke off; 3,000 of 322,906 bytes are kept" in message

    behaviour = Behaviour(content)
    with serving(behaviour) as mirror:
        assert pull(tmp_path, mirror).returncode == 0
    assert behaviour.asked == ["bytes=3000-"]


def test_a_server_without_ranges_begins_again(tmp_path: Path, content: bytes) -> None:
    behaviour = Behaviour(content, breaks=[100_000], knows_ranges=False)
    with serving(behaviour) as mirror:
        done = pull(tmp_path, mirror)

    assert done.returncode == 0, done.stderr
    assert model_in(tmp_path).read_bytes() == content


def test_a_redirection_is_followed(tmp_path: Path, content: bytes) -> None:
    with serving(Behaviour(content, moved=True)) as mirror:
        assert pull(tmp_path, mirror).returncode == 0


def test_another_content_is_refused_and_removed(tmp_path: Path, content: bytes) -> None:
    message = failure(tmp_path, Behaviour(bytes(len(content))))

    assert "is another file than the catalogue names" in message
    assert find_entry(NAME).sha256[:16] in message
    assert not list(tmp_path.rglob("*.part"))


def test_a_file_that_is_too_long_is_refused(tmp_path: Path, content: bytes) -> None:
    assert "is longer than the 322,906 bytes" in failure(tmp_path, Behaviour(content + b"more"))


def test_a_server_that_promises_less_than_there_is_does_not_end_it_early(tmp_path: Path, content: bytes) -> None:
    message = failure(tmp_path, Behaviour(content, claims_bytes=1000))

    assert "3,000 of 322,906 bytes are kept" in message


def test_a_server_that_stalls_is_given_up(tmp_path: Path, content: bytes) -> None:
    message = failure(tmp_path, Behaviour(content, stalls_after=5000), "--stall-timeout", "0.5")

    assert "the server sent nothing for 0.5 s" in message


@pytest.mark.parametrize(("status", "text"), [(404, "answers 404 Not Found"), (503, "answers 503 Service Unavailable")])
def test_the_answer_of_a_server_is_told(tmp_path: Path, content: bytes, status: int, text: str) -> None:
    assert text in failure(tmp_path, Behaviour(content, status=status))


def test_no_network_is_one_line_with_what_to_do(tmp_path: Path) -> None:
    done = pull(tmp_path, "http://127.0.0.1:9")

    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "could not be downloaded: Connection refused" in line
    assert "--from FOLDER" in line


def test_a_password_in_a_mirror_is_not_shown(tmp_path: Path) -> None:
    done = pull(tmp_path, "http://user:geheim@127.0.0.1:9")

    assert "geheim" not in done.stdout + done.stderr


def test_a_folder_takes_the_place_of_the_network(tmp_path: Path, shared_data: Path, content: bytes) -> None:
    done = pull(tmp_path, "http://127.0.0.1:9", "--from", str(shared_data / "models"))

    assert done.returncode == 0, done.stderr
    assert model_in(tmp_path).read_bytes() == content


def test_a_folder_without_the_file_says_what_it_should_have(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = pull(tmp_path, "", "--from", str(tmp_path / "empty"))

    assert done.returncode == 1
    assert "empty has none of yunet/yunet.onnx, yunet.onnx, yunet_n_dynamic.onnx" in done.stderr


def test_an_unknown_name_gets_the_nearest(tmp_path: Path) -> None:
    command = [*COMMAND[:-1], "yunett"]
    done = subprocess.run(command, env=environment(tmp_path, ""), capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "did you mean 'yunet'?" in done.stderr


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with serving(Behaviour(content)) as mirror:
        done = pull(tmp_path / "models", mirror)

    assert done.returncode == 1
    assert f"error: cannot write {tmp_path / 'models'}" in done.stderr


def test_a_full_disk_is_told_and_leaves_no_model(tmpfs: Path, content: bytes) -> None:
    fill = tmpfs / "filler"
    fill.write_bytes(bytes(800_000))
    with serving(Behaviour(content)) as mirror:
        done = pull(tmpfs, mirror)
        fill.unlink()
        again = pull(tmpfs, mirror)

    assert done.returncode == 1
    assert "the disk is full" in done.stderr.lower()
    assert again.returncode == 0, again.stderr
    assert model_in(tmpfs).read_bytes() == content


def test_a_disk_that_is_full_after_the_download_loses_nothing(tmpfs: Path, content: bytes) -> None:
    """There is room for the model, and none for its card."""
    free = os.statvfs(tmpfs)
    room = -(-len(content) // free.f_frsize) * free.f_frsize
    fill = tmpfs / "filler"
    fill.write_bytes(bytes(free.f_bavail * free.f_frsize - room))
    behaviour = Behaviour(content)
    with serving(behaviour) as mirror:
        done = pull(tmpfs, mirror)
        fill.unlink()
        again = pull(tmpfs, mirror)

    assert done.returncode == 1
    assert "the disk is full" in done.stderr.lower()
    assert again.returncode == 0, again.stderr
    assert len(behaviour.asked) == 1
    assert Store(tmpfs).find(NAME).damage is None
    assert not list((tmpfs / ".downloads").rglob("*.onnx"))


def test_two_at_once_download_once(tmp_path: Path, content: bytes) -> None:
    behaviour = Behaviour(content)
    with serving(behaviour) as mirror, ThreadPoolExecutor(2) as threads:
        done = list(threads.map(lambda _: pull_apart(tmp_path, mirror), range(2)))

    assert [one.returncode for one in done] == [0, 0]
    assert len(behaviour.asked) == 1


def test_without_a_terminal_the_licence_has_to_be_accepted(tmp_path: Path, content: bytes) -> None:
    with serving(Behaviour(content)) as mirror:
        done = subprocess.run(
            COMMAND,
            env=environment(tmp_path, mirror),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 2
    assert "its licence (Apache-2.0) has to be accepted: give --accept-licence" in done.stderr


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 2), (b"y\n", 0)])
def test_on_a_terminal_the_licence_is_asked_for(tmp_path: Path, content: bytes, answer: bytes, code: int) -> None:
    ours, theirs = pty.openpty()
    with serving(Behaviour(content)) as mirror:
        process = subprocess.Popen(
            COMMAND, env=environment(tmp_path, mirror), stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        os.write(ours, answer)
        _, told = process.communicate(timeout=300)
    os.close(ours)
    os.close(theirs)

    assert process.returncode == code, told
    assert b"Trained on: WIDER FACE" in told
    assert model_in(tmp_path).exists() is (code == 0)
