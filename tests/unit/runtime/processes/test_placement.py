"""Streams are dealt out to workers by their load."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sightline.graph import SourceElement
from sightline.runtime.processes.placement import Placement
from sightline_plugins import Media, Pattern

CLIPS = Path(__file__).parents[4] / "sample_videos"
LARGE, SMALL = Pattern(size=(1920, 1080), fps=25), Pattern(size=(640, 360), fps=25)
CAMERA = Media.model_validate({"uri": "http://127.0.0.1/camera", "live": True})


@dataclass(eq=False)
class Share:
    """A share whose load is as a test says."""

    sources: dict[str, SourceElement] = field(default_factory=dict)
    load: float = 0.0
    load_at: float = 0.0
    running: bool = True
    is_stopping: bool = False


def placed(*sources: SourceElement, workers: int = 2) -> list[list[int]]:
    """The numbers of the sources in each share."""
    shares = [Share() for _ in range(workers)]
    Placement(shares, {str(number): one for number, one in enumerate(sources)})
    return [[int(name) for name in share.sources] for share in shares]


def test_large_streams_are_spread_and_small_ones_fill_up() -> None:
    assert placed(LARGE, SMALL, LARGE, SMALL, SMALL, SMALL) == [[0, 1, 4], [2, 3, 5]]
    assert placed(LARGE, SMALL, SMALL, SMALL, SMALL) == [[0], [1, 2, 3, 4]]


@pytest.mark.parametrize("source", [SMALL, CAMERA])
def test_equal_streams_are_dealt_out_in_turn(source: SourceElement) -> None:
    assert placed(source, source, source, source, source) == [[0, 2, 4], [1, 3]]


def test_a_stream_of_unknown_size_weighs_as_much_as_the_others_on_average() -> None:
    assert placed(LARGE, SMALL, CAMERA) == [[0], [1, 2]]


def test_the_head_of_a_file_has_its_size_and_rate() -> None:
    gate = Media(uri=str(CLIPS / "gate.mp4"))

    assert gate.pixels_per_second() == 960 * 540 * 20
    assert gate.model_copy(update={"max_fps": 5}).pixels_per_second() == 960 * 540 * 5
    assert Media(uri=str(CLIPS / "none.mp4")).pixels_per_second() == CAMERA.pixels_per_second() == 0


def test_streams_that_come_at_once_go_to_different_workers() -> None:
    busy, idle, other = Share(load=0.9), Share(load=0.1), Share(load=0.1)
    shares = [busy, idle, other]
    placement = Placement(shares, {})
    placement.place("first", SMALL, busy)
    busy.load_at = idle.load_at = other.load_at = math.inf  # what there is was measured
    found = []
    for name in ("a", "b"):
        share = placement.share_for(name)
        assert share is not None
        share.load_at = 0.0  # what comes was not
        placement.place(name, SMALL, share)
        found.append(share)

    assert {id(one) for one in found} == {id(idle), id(other)}


def test_a_name_that_comes_again_goes_where_it_was_unless_that_worker_has_ended() -> None:
    shares = [Share(load=0.9), Share(load=0.1)]
    placement = Placement(shares, {"a": SMALL})
    shares[0].sources.clear()

    assert placement.share_for("a") is shares[0]
    shares[0].running = False
    assert placement.share_for("a") is shares[1]
    shares[1].is_stopping = True
    assert placement.share_for("a") is None
