"""Observations of several streams come in the order of time."""

from __future__ import annotations

from sightline_plugins.track.multi_camera.time_order import TimeOrder


def released(order: TimeOrder[str], *pushed: tuple[str, int]) -> list[str]:
    return [item for stream, time in pushed for _, item in order.push(stream, time, f"{stream}{time}")]


def test_a_single_stream_passes() -> None:
    assert released(TimeOrder(100), ("a", 1), ("a", 2)) == ["a1", "a2"]


def test_what_is_ahead_waits_for_the_others() -> None:
    assert released(TimeOrder(100), ("b", 0), ("a", 1), ("b", 20), ("b", 30), ("a", 20)) == ["b0", "a1", "a20", "b20"]


def test_a_stream_that_is_behind_is_not_waited_for_longer_than_allowed() -> None:
    order: TimeOrder[str] = TimeOrder(100)

    assert released(order, ("a", 0), ("b", 0), ("b", 50), ("b", 150)) == ["a0", "b0", "b50"]
    assert released(order, ("a", 10)) == ["a10"]


def test_an_ended_stream_is_not_waited_for() -> None:
    order: TimeOrder[str] = TimeOrder(100)
    assert released(order, ("a", 0), ("b", 0), ("b", 50)) == ["a0", "b0"]

    assert list(order.end("a", "end")) == [(0, "end"), (50, "b50")]
    assert list(order.end("b", "end")) == [(50, "end")]
    assert len(order) == 0
    assert list(order.end("b", "end")) == []
