"""Rules on areas find the same at every frame rate, with uneven frames, trembling boxes and hidden times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.rules.walkers import Walker, sampled

from sightline.devices import Device
from sightline.graph import Site
from sightline.graph.rule import Rule
from sightline_plugins import Absence, Crowd, Flows, Loitering, Parking, Queue

ZONE = [[400, 200], [900, 200], [900, 700], [400, 700]]
FAR = [[1000, 200], [1270, 200], [1270, 700], [1000, 700]]
RATES = (1, 2.5, 12, 60)
UNEVEN = 0.4
Seen = list[tuple[float, str, int, float]]
"""Second, state, track (-1: none) and duration in seconds (-1: none) of an event."""


def visit(track_id: int, enter: float, leave: float, *, hidden: tuple[float, float] | None = None) -> Walker:
    """Comes from the left, crosses the edge of the zone at one time, stands there, and goes back over it at another."""
    y = 250.0 + 80 * track_id
    times = (enter - 2, enter + 2, leave - 2, leave + 2)
    return Walker(track_id, times, ((200, y), (600, y), (600, y), (200, y)), (hidden,) if hidden else ())


VISITS = [visit(1, 5, 35), visit(2, 8, 30), visit(3, 12, 26, hidden=(17, 18.4)), visit(4, 20, 24.5)]
WAYS = [
    Walker(1, (0, 4, 8, 12), ((200, 300), (600, 300), (900, 300), (1250, 300))),
    Walker(2, (2, 6, 30, 34), ((1200, 400), (940, 400), (940, 400), (600, 400))),
]
"""Through the zone to the far one (out at 8, there at 9.14), and back from there (out at 5.08, in at 30.47)."""

CASES: dict[str, tuple[Rule, Sequence[Walker], Seen, dict[str, Any]]] = {
    "crowd": (
        Crowd.model_validate({"pixels": True, "a": {"polygon": ZONE, "at_least": 3, "after": "3s"}}),
        VISITS,
        [(15, "crowded", -1, -1), (29, "cleared", -1, 14)],
        {"crowds": 1, "largest": 4, "crowded_seconds": 14},
    ),
    "loitering": (
        Loitering.model_validate({"pixels": True, "a": {"polygon": ZONE, "after": "8s"}}),
        VISITS,
        [
            (13, "began", 1, 8),
            (16, "began", 2, 8),
            (20, "began", 3, 8),
            (28, "ended", 3, 14),
            (32, "ended", 2, 22),
            (37, "ended", 1, 30),
        ],
        {"loiterers": 3, "longest_seconds": 30},
    ),
    "absence": (
        Absence.model_validate({"pixels": True, "a": {"polygon": ZONE, "after": "3s"}}),
        VISITS,
        [(3, "absent", -1, 3), (5, "present", 1, 5), (38, "absent", -1, 3)],
        {"absences": 2, "absent_seconds": 15, "longest_seconds": 10},
    ),
    "queue": (
        Queue.model_validate(
            {"pixels": True, "a": {"polygon": ZONE, "length_limit": 3, "after": "3s", "wait_limit": "20s"}}
        ),
        VISITS,
        [
            (15, "long", -1, -1),
            (25, "long", -1, 20),
            (26.5, "served", 4, 4.5),
            (28, "served", 3, 14),
            (29, "short", -1, -1),
            (32, "served", 2, 22),
            (37, "short", -1, -1),
            (37, "served", 1, 30),
        ],
        {"served": 4, "gave_up": 0, "longest_queue": 4, "mean_wait_seconds": 17.625, "longest_wait_seconds": 30},
    ),
    "parking": (
        Parking.model_validate({"pixels": True, "a": {"polygon": ZONE, "anchor": "bottom", "overtime": "25s"}}),
        VISITS[:1],
        [(16.5, "occupied", 1, 10), (31.5, "overtime", 1, 25), (38, "free", 1, 28.5)],
        {"parked": 1, "occupied_seconds": 28.5, "longest_seconds": 28.5},
    ),
    "flows": (
        Flows.model_validate({"pixels": True, "a": {"polygon": ZONE}, "b": {"polygon": FAR}}),
        WAYS,
        [(9.14, "flow", 1, 1.14), (30.47, "flow", 2, 25.39)],
        {"arrived": 1, "departed": 1, "to": {"b": 1}},
    ),
}
DURATIONS = ("crowded_seconds", "seconds", "wait_seconds", "occupied_seconds")


@pytest.mark.parametrize("fps", RATES)
@pytest.mark.parametrize("name", CASES)
def test_what_is_found_does_not_depend_on_the_frame_rate(name: str, fps: float) -> None:
    rule, walkers, expected, totals = CASES[name]
    operator = rule.build(Site(device=Device()))
    batches = sampled(walkers, fps=fps, seconds=45, uneven=UNEVEN, noise=2.0, seed=round(fps))
    frame = (1 + UNEVEN) / fps

    found = [
        (batch.frames[event.frame].pts_ns / 1e9, event) for batch in batches for event in operator.process(batch).events
    ]
    operator.close()

    seen = [(event.data.get("state", "flow"), event.data.get("track_id", -1)) for _, event in found]
    wanted = [(state, track_id) for _, state, track_id, _ in expected]
    assert sorted(seen, key=str) == sorted(wanted, key=str)
    for at, state, track_id, lasted in expected:
        (event,) = [
            event
            for second, event in found
            if (event.data.get("state", "flow"), event.data.get("track_id", -1)) == (state, track_id)
            and abs(second - at) <= 2 * frame
        ]
        if lasted >= 0:
            (duration,) = [value for key, value in event.data.items() if key in DURATIONS]
            assert duration == pytest.approx(lasted, abs=2 * frame + 0.1), (state, track_id)
    ended = operator.totals()["cam"]["a"]
    for key, value in totals.items():
        is_time = key.endswith("seconds")
        assert ended[key] == (pytest.approx(value, abs=2 * frame + 0.1) if is_time else value), key
