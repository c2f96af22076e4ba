"""`compat: deepstream` counts as nvdsanalytics does, where that differs from `lines`."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.rules.walkers import Walker, sampled, walker

from sightline.devices import Device
from sightline.graph import Site
from sightline.testing import run_element
from sightline.testing.rule_conformance import RuleConformance
from sightline_plugins.rules.lines import Lines

GATE = {"from": [640, 100], "to": [640, 700]}
RIGHT = [[600, 400], [700, 400]]
LINE = {**GATE, "arrow": RIGHT}


def lines(**options: Any) -> Lines:
    return Lines.model_validate(_options(**options))


def _options(**options: Any) -> dict[str, Any]:
    return {"pixels": True, "compat": "deepstream", "gate": {**LINE, **options}}


def found(element: Lines, *walkers: Walker, fps: float = 30, size: int = 64) -> list[tuple[int, int]]:
    """The frame and the track of each crossing."""
    return [
        (batch.frames[event.frame].index, int(event.data["track_id"]))
        for batch in run_element(element, sampled(walkers, fps=fps, size=size))
        for event in batch.events
    ]


def way(x1: float, x2: float, *, seconds: float = 2.0, y: float = 400.0, track_id: int = 1) -> Walker:
    return walker((0, x1, y), (seconds, x2, y), track_id=track_id)


def plain() -> Lines:
    return Lines.model_validate({"pixels": True, "gate": GATE})


def test_an_object_counts_once_however_often_it_crosses() -> None:
    to_and_fro = walker((0, 500, 400), (1, 800, 400), (2, 500, 400), (3, 800, 400))

    assert len(found(lines(), to_and_fro)) == 1
    assert len(found(plain(), to_and_fro)) == 3


def test_only_the_direction_of_the_arrow_counts() -> None:
    assert found(lines(), way(800, 500)) == []
    assert len(found(lines(arrow=RIGHT[::-1]), way(800, 500))) == 1
    assert len(found(plain(), way(800, 500))) == 1


@pytest.mark.parametrize(("mode", "least"), [("loose", 1000), ("balanced", 3000), ("strict", 6000)])
def test_an_object_has_to_have_come_far_enough(mode: str, least: int) -> None:
    """The squared way since the oldest samples, in pixels, has to exceed a limit."""
    short, long = least**0.5 - 3, least**0.5 + 3

    assert found(lines(mode=mode), way(641 - short, 641, seconds=1.5)) == []
    assert len(found(lines(mode=mode), way(643 - long, 643, seconds=1.5))) == 1
    assert len(found(plain(), way(643 - short, 643, seconds=1.5))) == 1


@pytest.mark.parametrize(("mode", "frames"), [("loose", 3), ("balanced", 10), ("strict", 20)])
def test_an_object_has_to_have_been_seen_often_enough(mode: str, frames: int) -> None:
    fast = Walker(1, (0.0, (frames + 3.5) / 30), ((500.0, 400.0), (900.0, 400.0)))

    (crossing,) = found(lines(mode=mode), fast)
    assert crossing[0] >= frames
    assert found(plain(), fast)[0][0] < frames + 2


def test_balanced_and_strict_want_the_direction_of_the_arrow_and_loose_does_not() -> None:
    steep = walker((0, 620, 150), (2, 700, 640))

    assert [len(found(lines(mode=mode), steep)) for mode in ("loose", "balanced", "strict")] == [1, 0, 0]


@pytest.mark.parametrize(("behind", "counts"), [(1, [1, 0, 0]), (2, [1, 1, 1])])
def test_balanced_and_strict_want_a_whole_pixel_behind_the_line(behind: int, counts: list[int]) -> None:
    """One pixel to the right of a line at 45 degrees is 0.7 pixels behind it, two are 1.4."""
    slanted = {"from": [340, 700], "to": [940, 100]}
    stops_there = walker((0, 541, 400), (1, 640 + behind, 400), (2, 640 + behind, 400))

    assert [len(found(lines(mode=mode, **slanted), stops_there)) for mode in ("loose", "balanced", "strict")] == counts


def test_an_extended_line_goes_on_beyond_its_ends() -> None:
    beside = walker((0, 500, 90), (2, 800, 90))

    assert [len(found(lines(extended=extended), beside)) for extended in (False, True)] == [0, 1]


def test_half_the_width_of_the_box_may_meet_the_segment_instead_of_its_middle() -> None:
    """The middle passes below the end of the line, at 395, and what is half a width to its right above it, at 385."""
    slanted = {"from": [640, 100], "to": [660, 390], "arrow": RIGHT}
    below = walker((0, 500, 315), (2, 800, 465))

    assert len(found(lines(**slanted), below)) == 1
    assert found(Lines.model_validate({"pixels": True, "gate": {"from": [640, 100], "to": [660, 390]}}), below) == []


def test_who_was_hidden_for_longer_than_300_ms_is_counted_again() -> None:
    stops = [(0.0, 500.0, 400.0), (1.5, 800.0, 400.0), (3.0, 500.0, 400.0), (4.5, 800.0, 400.0)]
    short, long = walker(*stops, hidden=[(2.0, 2.2)]), walker(*stops, hidden=[(2.5, 3.0)])

    assert (len(found(lines(), short)), len(found(lines(), long))) == (1, 2)


def test_a_slow_object_is_judged_by_the_last_fifty_frames_or_the_window() -> None:
    """At 60 frames a second it comes 25 pixels in 50 frames, which is too few, and 126 in 250; at 12 it comes 125."""
    slow = way(500, 700, seconds=6.6)

    assert (len(found(lines(), slow, fps=60)), len(found(lines(), slow, fps=12))) == (0, 1)
    assert len(found(Lines.model_validate({**_options(), "window": 250}), slow, fps=60)) == 1


def test_results_do_not_depend_on_batches_and_go_on_in_another_process() -> None:
    walkers = [way(500, 800, track_id=1), way(450, 900, y=300, track_id=2)]
    whole = found(lines(), *walkers)
    batches = sampled(walkers, fps=30, size=1)
    first, second = lines().build(Site(device=Device())), lines().build(Site(device=Device()))
    for batch in batches[:25]:
        first.process(batch)
    saved = first.save(batches[0].frames[0].stream)
    assert saved is not None
    second.restore("cam", saved)

    later = [event for batch in batches[25:] for event in second.process(batch).events]

    assert len(whole) == 2
    assert found(lines(), *walkers, size=1) == whole
    assert len(later) == sum(index >= 25 for index, _ in whole)
    assert second.totals()["cam"]["gate"] == {"in": 2}


class TestDeepStreamLines(RuleConformance):
    frames = 30
    element = Lines.model_validate(
        {"compat": "deepstream", "gate": {"from": [0.5, 0.1], "to": [0.5, 0.9], "arrow": [[0.4, 0.5], [0.6, 0.5]]}}
    )
    changed = Lines.model_validate(
        {"compat": "deepstream", "gate": {"from": [0.6, 0.1], "to": [0.6, 0.9], "arrow": [[0.4, 0.6], [0.6, 0.5]]}}
    )


@pytest.mark.parametrize(
    ("text", "location", "message"),
    [
        ({"compat": "deepstream", "gate": GATE}, ("gate", "arrow"), "is missing"),
        ({"compat": "deepstream", "gate": {**LINE, "margin": 3}}, ("gate", "margin"), "leave it out"),
        ({"gate": {**GATE, "mode": "strict"}}, ("gate", "mode"), "needs `compat: deepstream`"),
        ({"compat": "deepstream", "gate": {**LINE, "arrow": [[9, 1], [9, 2]]}}, ("gate",), "one side of the line"),
        ({"compat": "frigate", "gate": LINE}, ("compat",), "'deepstream'"),
    ],
)
def test_a_mistake_is_reported_where_it_is(text: dict[str, Any], location: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Lines.model_validate({"pixels": True, **text})
    assert [error["loc"] for error in caught.value.errors() if message in error["msg"]] == [location]
