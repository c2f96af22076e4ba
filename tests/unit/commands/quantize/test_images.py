"""Images are spread evenly, and what is judged by is not what was calibrated on."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from sightline_plugins.commands.quantize.samples import Images, gather
from sightline_plugins.preprocess.definition import Preprocessing

DEFINITION = Preprocessing(size_wh=(8, 8), fit="stretch")


def folder(path: Path, *, count: int, first: int = 0) -> str:
    """Images whose level is their number."""
    path.mkdir()
    for number in range(count):
        cv2.imwrite(str(path / f"{number:03}.png"), np.full((16, 16, 3), first + number, np.uint8))
    return str(path)


def gathered(*frames: str, judge: tuple[str, ...] = (), count: int) -> Images:
    return gather(DEFINITION, frames, judge=judge, count=count, progress=lambda _: None)


def levels(images: Images) -> tuple[list[int], list[int]]:
    """The numbers of the images that were calibrated on, and of those that are judged by."""
    return (
        [int(one[0, 0, 0, 0]) for one in images.calibration],
        [int(one.image[0, 0, 0, 0]) for one in images.judged],
    )


def test_images_are_spread_over_the_whole_clip(tmp_path: Path) -> None:
    calibration, judged = levels(gathered(folder(tmp_path / "a", count=100), count=4))

    assert len(calibration) == 4
    assert len(judged) == 16
    assert max(calibration) - min(calibration) > 60
    assert max(judged) - min(judged) > 80


def test_no_image_is_both_calibrated_on_and_judged_by(tmp_path: Path) -> None:
    images = gathered(folder(tmp_path / "a", count=30), count=8)

    calibration, judged = levels(images)
    assert images.apart
    assert set(calibration).isdisjoint(judged)


def test_where_there_are_too_few_they_are_both_and_that_is_told(tmp_path: Path) -> None:
    images = gathered(folder(tmp_path / "a", count=3), count=8)

    assert not images.apart
    assert levels(images) == ([0, 1, 2], [0, 1, 2])


def test_clips_to_judge_by_are_read_for_nothing_else(tmp_path: Path) -> None:
    one, other = folder(tmp_path / "a", count=10), folder(tmp_path / "b", count=10, first=100)

    calibration, judged = levels(gathered(one, judge=(other,), count=2))

    assert all(level < 50 for level in calibration)
    assert all(level >= 100 for level in judged)


@pytest.mark.parametrize("count", [1, 7])
def test_frames_of_all_clips_are_told_apart(count: int, tmp_path: Path) -> None:
    clips = folder(tmp_path / "a", count=20), folder(tmp_path / "b", count=20, first=100)

    images = gathered(*clips, count=count)

    assert {(one.clip, one.image[0, 0, 0, 0] >= 100) for one in images.judged} == {(0, False), (1, True)}
    assert all(int(one.image[0, 0, 0, 0]) == one.frame + 100 * one.clip for one in images.judged)
