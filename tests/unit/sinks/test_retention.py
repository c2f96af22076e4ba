"""What is kept of written files: the limits, the order, and that nothing else is ever touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from sightline.graph import Outputs
from sightline_plugins.sinks.retention import FileNames, Keep, Retention

DAY_NS = 86_400_000_000_000
NOW_NS = 100 * DAY_NS
NAMES = FileNames("clips/{stream}/{time}.mp4", {"{time}": r"\d{4}"})


class Clock:
    """Noon, always."""

    def monotonic_ns(self) -> int:
        return 0

    def epoch_ns(self) -> int:
        return NOW_NS


class Disk(NamedTuple):
    """What a disk says of itself."""

    total: int
    used: int
    free: int


def write(folder: Path, *names: str, size: int = 1_000, days_ago: float = 1) -> list[Path]:
    """Files, the first the oldest."""
    made = []
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
        at_ns = round(NOW_NS - days_ago * DAY_NS) + number * 1_000_000_000
        os.utime(path, ns=(at_ns, at_ns))
        made.append(path)
    return made


def retention(folder: Path, *, names: FileNames = NAMES, **limits: object) -> Retention:
    keep = Keep.model_validate({"free": 0, **limits})
    return Retention(keep, names=names, outputs=Outputs(folder), clock=Clock(), warn=pytest.fail)


def left(files: list[Path]) -> list[str]:
    return [file.name for file in files if file.exists()]


def test_the_oldest_files_go_when_all_are_too_large(tmp_path: Path) -> None:
    files = write(tmp_path, *(f"clips/gate/000{number}.mp4" for number in range(5)))

    retention(tmp_path, size="3kB").tidy()

    assert left(files) == ["0002.mp4", "0003.mp4", "0004.mp4"]


def test_what_is_being_written_counts(tmp_path: Path) -> None:
    files = write(tmp_path, *(f"clips/gate/000{number}.mp4" for number in range(5)))

    retention(tmp_path, size="3kB").tidy(open_bytes=1_500)

    assert left(files) == ["0004.mp4"]


def test_files_that_are_too_old_go(tmp_path: Path) -> None:
    old = write(tmp_path, "clips/gate/0000.mp4", "clips/gate/0001.mp4", days_ago=8)
    new = write(tmp_path, "clips/gate/0002.mp4", days_ago=6)

    retention(tmp_path, age="7d").tidy()

    assert left(old + new) == ["0002.mp4"]


def test_files_that_are_too_many_go(tmp_path: Path) -> None:
    files = write(tmp_path, *(f"clips/gate/000{number}.mp4" for number in range(5)))

    retention(tmp_path, count=2).tidy()

    assert left(files) == ["0003.mp4", "0004.mp4"]


def test_room_is_made_before_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path, *(f"clips/gate/000{number}.mp4" for number in range(5)))
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: Disk(10_000, 0, 1_000 + 1_000 * sum(not file.exists() for file in files))
    )

    retention(tmp_path, free="3kB").tidy()

    assert left(files) == ["0002.mp4", "0003.mp4", "0004.mp4"]


def test_a_full_disk_costs_one_file_at_a_time(tmp_path: Path) -> None:
    files = write(tmp_path, "clips/gate/0000.mp4", "clips/gate/0001.mp4")
    kept = retention(tmp_path)

    assert kept.make_room()
    assert left(files) == ["0001.mp4"]
    assert kept.make_room()
    assert not kept.make_room()


def test_files_written_in_this_run_count_with_those_before(tmp_path: Path) -> None:
    before = write(tmp_path, "clips/gate/0000.mp4")
    kept = retention(tmp_path, count=1)
    kept.tidy()
    now = write(tmp_path, "clips/gate/0001.mp4")

    kept.add(now[0], size_bytes=1_000)
    kept.tidy()

    assert left(before + now) == ["0001.mp4"]


def test_streams_share_the_limits(tmp_path: Path) -> None:
    files = write(tmp_path, "clips/gate/0000.mp4", "clips/yard/0001.mp4", "clips/gate/0002.mp4")

    retention(tmp_path, count=1).tidy()

    assert left(files) == ["0002.mp4"]


@pytest.mark.parametrize(
    "name",
    [
        "clips/gate/holiday.mp4",
        "clips/gate/0000.mkv",
        "clips/gate/0000.mp4.part",
        "clips/0000.mp4",
        "clips/gate/deeper/0000.mp4",
        "other/gate/0000.mp4",
        "clips/gate/00001.mp4",
    ],
)
def test_files_with_names_that_the_step_would_not_give_are_never_touched(tmp_path: Path, name: str) -> None:
    (foreign,) = write(tmp_path, name, days_ago=50)

    retention(tmp_path, age="7d", size="1B", count=1).tidy()

    assert foreign.exists()


def test_numbered_files_are_the_steps_own(tmp_path: Path) -> None:
    (own,) = write(tmp_path, "clips/gate/0000-2.mp4", days_ago=8)

    retention(tmp_path, age="7d").tidy()

    assert not own.exists()


def test_special_characters_in_the_path_mean_themselves(tmp_path: Path) -> None:
    names = FileNames("a[1]*/{time}.mp4", {"{time}": r"\d{4}"})
    own, foreign = write(tmp_path, "a[1]*/0000.mp4", "a1b/0000.mp4", days_ago=8)

    retention(tmp_path, names=names, age="7d").tidy()

    assert not own.exists()
    assert foreign.exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    (target,) = write(tmp_path, "elsewhere.mp4", days_ago=8)
    (tmp_path / "clips" / "gate").mkdir(parents=True)
    (tmp_path / "clips" / "gate" / "0000.mp4").symlink_to(target)

    retention(tmp_path, age="7d").tidy()

    assert target.exists()


def test_a_file_that_somebody_else_removed_does_not_count(tmp_path: Path) -> None:
    files = write(tmp_path, *(f"clips/gate/000{number}.mp4" for number in range(3)))
    kept = retention(tmp_path, count=2)
    kept.add(files[2], size_bytes=1_000)
    files[0].unlink()

    kept.tidy()

    assert left(files) == ["0001.mp4", "0002.mp4"]
