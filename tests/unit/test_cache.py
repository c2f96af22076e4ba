"""What the cache folder keeps comes back; what is damaged or in the way costs time and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.cache import VARIABLE, kept


class Counted:
    """Makes the text `made`, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> str:
        self.times += 1
        return "made"


def read(content: bytes) -> str | None:
    return content.decode() if content != b"damaged" else None


def ask(make: Counted) -> str:
    return kept("kind/name.txt", read=read, make=make, write=str.encode)


def test_it_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    make = Counted()

    assert [ask(make), ask(make)] == ["made", "made"]
    assert make.times == 1
    assert [file.name for file in (tmp_path / "cache" / "kind").iterdir()] == ["name.txt"]


def test_what_is_damaged_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    make = Counted()
    ask(make)
    (tmp_path / "kind" / "name.txt").write_bytes(b"damaged")

    assert ask(make) == "made"
    assert make.times == 2
    assert (tmp_path / "kind" / "name.txt").read_bytes() == b"made"


def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    make = Counted()

    assert [ask(make), ask(make)] == ["made", "made"]
    assert make.times == 2


def test_nothing_is_kept_when_the_cache_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    make = Counted()

    assert [ask(make), ask(make)] == ["made", "made"]
    assert make.times == 2
