"""Options of every rule: schedules, cool-downs and severity, and that they outlive a process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.unit.rules.scenes import path, scene

from sightline.devices import Device
from sightline.graph.rule import RuleOperator
from sightline.graph.rule_options import CoolDowns
from sightline.graph.site import Site
from sightline.media import Batch, Part
from sightline_plugins import Lines, Zones

MORNING_NS = 1_767_348_000_000_000_000
"""Friday, 2026-01-02, 10:00 UTC."""
IN, OUT = (50.0, 50.0), (90.0, 50.0)


def plaza(**options: Any) -> Zones:
    zone = {"polygon": [[0.3, 0.3], [0.7, 0.3], [0.7, 0.7], [0.3, 0.7]], "margin": 0, **options}
    return Zones.model_validate({"plaza": zone})


def found(rule: Zones | Lines, batches: Sequence[Batch]) -> list[dict[str, Any]]:
    operator = rule.build(Site(device=Device()))
    return [dict(event.data) for batch in batches for event in operator.process(batch).events]


def test_severity_stands_in_every_event() -> None:
    batches = scene({1: path([OUT, IN, OUT])}, frames=3)

    events = found(plaza(severity="high"), batches)

    assert [one["direction"] for one in events] == ["enter", "leave"]
    assert [one["severity"] for one in events] == ["high", "high"]
    assert "severity" not in found(plaza(), batches)[0]


def test_a_cool_down_reports_the_first_and_its_end_and_counts_all() -> None:
    steps = [OUT, IN, OUT, IN, OUT, OUT, OUT, IN, OUT]
    operator = plaza(cooldown="500ms").build(Site(device=Device()))

    events = [
        (batch.frames[event.frame].index, event.data["direction"])
        for batch in scene({1: path(steps)}, frames=len(steps))
        for event in operator.process(batch).events
    ]

    assert events == [(1, "enter"), (2, "leave"), (7, "enter"), (8, "leave")]
    assert operator.totals()["cam"]["plaza"]["entered"] == 3


def test_the_end_of_what_began_unreported_is_not_reported() -> None:
    cool = CoolDowns()

    def lets(part: Part, subject: int, now_ns: int) -> bool:
        return cool.lets_through("plaza", "zone", part, subject, cooldown_ns=100, now_ns=now_ns)

    assert lets(Part.BEGIN, 1, 0)
    assert not lets(Part.BEGIN, 2, 50)
    assert not lets(Part.END, 2, 150)
    assert lets(Part.END, 1, 160)
    assert lets(Part.MOMENT, -1, 170)
    assert not lets(Part.MOMENT, -1, 180)


def test_a_cool_down_outlives_the_process() -> None:
    cool, later = CoolDowns(), CoolDowns()
    assert cool.lets_through("plaza", "zone", Part.BEGIN, 1, cooldown_ns=100, now_ns=0)
    assert not cool.lets_through("plaza", "zone", Part.BEGIN, 2, cooldown_ns=100, now_ns=10)
    later.restore(json.loads(json.dumps(cool.save())))

    assert not later.lets_through("plaza", "zone", Part.END, 2, cooldown_ns=100, now_ns=20)
    assert not later.lets_through("plaza", "zone", Part.BEGIN, 3, cooldown_ns=100, now_ns=99)
    assert later.lets_through("plaza", "zone", Part.BEGIN, 4, cooldown_ns=100, now_ns=100)


def at(batches: Sequence[Batch], begin_ns: int, *, from_pts_ns: int = 0) -> list[Batch]:
    """The batches with times of day; presentation times begin at 0 again at `from_pts_ns`."""
    return [
        replace(
            batch,
            frames=tuple(
                replace(one, capture_ns=begin_ns + one.pts_ns, pts_ns=one.pts_ns - from_pts_ns) for one in batch.frames
            ),
        )
        for batch in batches
    ]


def test_a_stay_goes_on_by_real_time_over_a_restart() -> None:
    """The process is gone for an hour; the stream of the next one begins at 0."""
    batches = scene({1: path([OUT] + [IN] * 10 + [OUT])}, frames=12)
    site, hour_ns = Site(device=Device()), 3_600 * 10**9
    first, second = plaza().build(site), plaza().build(site)
    for batch in at(batches[:6], MORNING_NS):
        first.process(batch)
    saved = json.loads(json.dumps(first.save(batches[0].frames[0].stream)))
    second.restore("cam", saved)
    begin_ns = batches[6].frames[0].pts_ns

    later = at(batches[6:], MORNING_NS + hour_ns, from_pts_ns=begin_ns)
    (event,) = (event for batch in later for event in second.process(batch).events)

    assert event.data == {"direction": "leave", "track_id": 1, "dwell_seconds": 3_601.0}
    assert second.totals()["cam"]["plaza"] == {
        "entered": 1,
        "left": 1,
        "visitors": 1,
        "largest": 1,
        "mean_dwell_seconds": 3_601.0,
    }


def test_the_first_frame_after_a_restart_that_comes_late_makes_no_stay_longer() -> None:
    batches = scene({1: path([OUT] + [IN] * 10 + [OUT])}, frames=12)
    first, second = plaza().build(Site(device=Device())), plaza().build(Site(device=Device()))
    for batch in at(batches[:6], MORNING_NS):
        first.process(batch)
    second.restore("cam", json.loads(json.dumps(first.save(batches[0].frames[0].stream))))
    late, *later = at(batches[6:], MORNING_NS, from_pts_ns=batches[6].frames[0].pts_ns)
    (frame,) = late.frames
    assert frame.capture_ns is not None
    late = replace(late, frames=(replace(frame, capture_ns=frame.capture_ns + 250_000_000),))

    (event,) = (event for batch in [late, *later] for event in second.process(batch).events)

    assert event.data["dwell_seconds"] == 1.0


def test_counts_of_a_line_that_is_elsewhere_now_go_on_and_its_tracks_begin_anew() -> None:
    down = scene({1: path([(50, 30), (50, 45), (50, 70)])}, frames=3)

    def line(y: float) -> RuleOperator:
        options = {"gate": {"from": [0.1, y], "to": [0.9, y], "margin": 0}}
        return Lines.model_validate(options).build(Site(device=Device()))

    first, same, moved = line(0.4), line(0.4), line(0.6)
    for batch in down[:2]:
        first.process(batch)
    saved = first.save(down[0].frames[0].stream)
    assert saved is not None
    for operator in (same, moved):
        operator.restore("cam", saved)
        operator.process(down[2])

    assert first.totals()["cam"]["gate"] == {"in": 1, "out": 0}
    assert same.totals()["cam"]["gate"] == {"in": 1, "out": 0}
    assert moved.totals()["cam"]["gate"] == {"in": 1, "out": 0}, "the place before the restart is not a step"
