"""Escape sequences from keys, exceptions, class names and servers do not reach the terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import threading
from pathlib import Path

import pytest
from tests.integration.cli.conftest import command
from tests.unit.infer.tiny import write_detector

TITLE = "\\e]0;owned\\a"
"""Sets the title of a terminal, as YAML writes it."""
CAM = "sources: {cam: {pattern: bars, size: [64, 48], frames: 3}}\n"
FUNCTIONS = """
def boom(*given):
    raise ValueError("bad \\x1b]0;owned\\x07\\x9b31m \\u202e 中文")
"""
CONFIGS = {
    "a key": f'{CAM}pipeline: []\n"na{TITLE}me": 1\n',
    "an option": f'{CAM}pipeline: [{{jsonl: {{path: a.jsonl, "x{TITLE}": 1}}}}]\n',
    "a value": f'{CAM}device: "cpu{TITLE}"\npipeline: []\n',
    "the name of a file": f'sources: {{cam: {{uri: "no{TITLE}.mp4"}}}}\npipeline: []\n',
    "a stream": f'sources: {{"cam{TITLE}": {{pattern: bars}}}}\npipeline: []\n',
    "an exception": CAM + 'pipeline: [{apply: {function: "mine.py:boom"}}]\n',
    "an exception that is skipped": CAM + 'pipeline: [{apply: {function: "mine.py:boom", on_error: skip}}]\n',
    "class names": CAM + f'pipeline: [{{detect: {{model: tiny.onnx, labels: ["a{TITLE}", b], classes: [c]}}}}]\n',
}
SEEN = r"\x1b]0;owned\x07"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
OWN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
"""What the table of a run on a terminal needs: cursor movements and colours."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    write_detector(tmp_path / "tiny.onnx")
    return tmp_path


def on_a_terminal(*arguments: str, folder: Path) -> str:
    """What a command prints, on standard output and error, when both are a terminal."""
    main, terminal = pty.openpty()
    read: list[bytes] = []

    def keep() -> None:
        try:
            while data := os.read(main, 1 << 16):
                read.append(data)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=keep)
    reader.start()
    try:
        subprocess.run(command(*arguments), cwd=folder, stdout=terminal, stderr=terminal, check=False, timeout=300)
    finally:
        os.close(terminal)
        reader.join()
        os.close(main)
    return b"".join(read).decode()


@pytest.mark.parametrize("what", CONFIGS)
def test_no_control_character_is_printed_to_a_pipe(what: str, folder: Path) -> None:
    (folder / "p.yaml").write_text(CONFIGS[what])

    done = subprocess.run(command("run", "p.yaml"), cwd=folder, capture_output=True, text=True, check=False)

    assert SEEN in done.stderr
    assert not CONTROL.search(done.stdout + done.stderr)


@pytest.mark.parametrize("what", CONFIGS)
def test_no_control_character_but_our_own_is_printed_to_a_terminal(what: str, folder: Path) -> None:
    (folder / "p.yaml").write_text(CONFIGS[what])

    printed = on_a_terminal("run", "p.yaml", folder=folder)

    assert SEEN in re.sub(r"\s*\r\n", "", OWN.sub("", printed)) or "owned" in printed
    assert not CONTROL.search(OWN.sub("", printed))


def test_text_of_all_languages_stays(folder: Path) -> None:
    (folder / "p.yaml").write_text(CONFIGS["an exception"])

    done = subprocess.run(command("run", "p.yaml"), cwd=folder, capture_output=True, text=True, check=False)

    assert r"\x9b31m \u202e 中文" in done.stderr
