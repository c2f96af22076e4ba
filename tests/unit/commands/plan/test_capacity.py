"""How many streams fit by what was measured, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sightline_plugins.commands.plan.capacity import Figures
from sightline_plugins.commands.plan.fleet import Fleet, Machine, Share, shares

MIB = 2**20
FIGURES = Figures(
    processor="one that was made up",
    cores=4,
    memory_bytes=1100 * MIB,
    rates={"gate": 25.0, "yard": 5.0},
    decode_ms={"gate": 2.0, "yard": 6.0},
    steps_ms=8.0,
    usable=0.9,
    base_bytes=100 * MIB,
    stream_bytes=50 * MIB,
    bottleneck="the processor",
)


def test_a_stream_takes_the_mean_of_all_at_their_own_rates() -> None:
    assert FIGURES.cpu_ms_a_second() == pytest.approx(((2 + 8) * 25 + (6 + 8) * 5) / 2)
    assert FIGURES.streams_by_processor() == pytest.approx(4 * 0.9 * 1000 / 160)
    assert FIGURES.streams_by_memory() == pytest.approx(20)
    assert FIGURES.streams() == 20
    assert FIGURES.runs_out() == "memory"


def test_frames_that_are_not_analysed_are_decoded_all_the_same() -> None:
    assert FIGURES.cpu_ms_a_second(fps=10) == pytest.approx((2 * 25 + 8 * 10 + (6 + 8) * 5) / 2)
    assert FIGURES.cpu_ms_a_second(fps=100) == FIGURES.cpu_ms_a_second()


def test_what_stays_free_is_taken_from_what_is_short() -> None:
    roomy = replace(FIGURES, memory_bytes=100_000 * MIB)
    assert roomy.runs_out() == "the processor"
    assert [roomy.streams(headroom=share) for share in (0, 0.1, 0.5)] == [22, 20, 11]
    assert replace(FIGURES, base_bytes=2000 * MIB).streams() == 0
    assert replace(FIGURES, stream_bytes=0).streams_by_memory() == math.inf


def test_machines_are_filled_in_their_order_until_all_streams_have_a_place() -> None:
    machines = {
        "server": Machine(cores=32, memory="100GB", count=1),
        "edge": Machine(cores=4, memory="100GB", speed=0.5),
    }
    filled, left = shares(Fleet(streams=200, machines=machines), FIGURES, headroom=0.0)
    assert filled == [Share("server", 180, 1, 180), Share("edge", 11, 2, 20)]
    assert left == 0

    few = {"edge": Machine(cores=4, memory="600MB", count=2), "tiny": Machine(cores=1, memory="50MB")}
    filled, left = shares(Fleet(streams=30, machines=few), FIGURES, headroom=0.0)
    assert filled == [Share("edge", 9, 2, 18), Share("tiny", 0, 0, 0)]
    assert left == 12
