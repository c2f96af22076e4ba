"""Every rule that is installed keeps the contract of rules."""

from __future__ import annotations

from typing import Any, ClassVar

from sightline.graph.registry import Registry
from sightline.graph.rule import Rule
from sightline.media import Batch, Event, Part
from sightline.testing.rule_conformance import RuleConformance
from sightline_plugins import (
    Absence,
    Combine,
    Crowd,
    Direction,
    Flows,
    HeatMaps,
    LeftObjects,
    Lines,
    Loitering,
    Parking,
    Queue,
    Speed,
    Stopped,
    Zones,
)

MIDDLE = [[0.3, 0.3], [0.7, 0.3], [0.7, 0.8], [0.3, 0.8]]
LEFT = [[0.1, 0.3], [0.5, 0.3], [0.5, 0.8], [0.1, 0.8]]
TOP = [[0.6, 0.1], [0.6, 0.25], [0.4, 0.25], [0.4, 0.1]]
LOW = [[0.4, 0.85], [0.6, 0.85], [0.6, 1], [0.4, 1]]


class TestLines(RuleConformance):
    element = Lines.model_validate({"gate": {"from": [0.2, 0.5], "to": [0.8, 0.5]}})
    changed = Lines.model_validate({"gate": {"from": [0.2, 0.4], "to": [0.8, 0.6]}})


class TestLinesThatComeAndGo(RuleConformance):
    element = Lines.model_validate({name: {"from": [0, y], "to": [1, y]} for name, y in (("one", 0.3), ("two", 0.6))})
    changed = Lines.model_validate(
        {name: {"from": [0, y], "to": [1, y], "anchor": "top"} for name, y in (("new", 0.5), ("two", 0.6))}
    )


class TestLinesInPixels(RuleConformance):
    element = Lines.model_validate({"pixels": True, "gate": {"from": [0, 60], "to": [159, 60], "margin": 2}})
    changed = Lines.model_validate({"gate": {"from": [0, 0.5], "to": [0.99, 0.5], "margin": 0.01}})


class TestZones(RuleConformance):
    element = Zones.model_validate({"plaza": {"polygon": MIDDLE, "dwell": "100ms", "limit": 1, "margin": 0.02}})
    changed = Zones.model_validate({"plaza": {"polygon": LEFT, "dwell": "200ms", "limit": 0, "margin": 0}})


class TestZonesThatComeAndGo(RuleConformance):
    element = Zones.model_validate({"plaza": {"polygon": MIDDLE}, "left": {"polygon": LEFT, "dwell": "80ms"}})
    changed = Zones.model_validate({"renamed": {"polygon": LEFT, "dwell": "80ms"}, "gone": "100ms"})


class TestCombine(RuleConformance):
    element = Combine.model_validate(
        {
            "then": {"when": "zones.a.enter then lines.b.in", "within": "400ms", "same_track": True},
            "both": "zones.a.enter and not lines.b.in",
            "often": "count(lines.b) >= 2 within 300ms",
        }
    )
    changed = Combine.model_validate({"then": "lines.b.in then zones.a.leave", "both": "zones.a.enter and lines.b.in"})

    def batches(self, **options: Any) -> list[Batch]:
        return [batch.with_events(self.happening(batch)) for batch in super().batches(**options)]

    def happening(self, batch: Batch) -> list[Event]:
        """A stay with a crossing in it, and another one afterwards."""
        stay = {3: ("enter", Part.BEGIN), 14: ("leave", Part.END), 16: ("enter", Part.BEGIN)}
        events = []
        for row, frame in enumerate(batch.frames):
            if frame.index in stay:
                direction, part = stay[frame.index]
                events.append(Event("zone", "a", row, {"direction": direction, "track_id": 1}, "zones-1", part, 1))
            if frame.index in (7, 10, 18):
                events.append(Event("line", "b", row, {"direction": "in", "track_id": 1}, "lines-1"))
        return events


class TestDirection(RuleConformance):
    element = Direction.model_validate({"lane": {"allowed": {"from": [0, 0.5], "to": [1, 0.5]}, "polygon": MIDDLE}})
    changed = Direction.model_validate({"lane": {"forbidden": 90, "polygon": LEFT}, "other": {"allowed": 180}})


class TestLeftObjects(RuleConformance):
    options: ClassVar[dict[str, Any]] = {"owners": ["dog"], "after": "200ms", "still": 0.5, "gone": "100ms"}
    element = LeftObjects.model_validate({"hall": {**options, "polygon": MIDDLE}})
    changed = LeftObjects.model_validate({"hall": {**options, "polygon": LEFT, "after": "100ms"}})


class TestSpeed(RuleConformance):
    ground: ClassVar[dict[str, Any]] = {"from": [0, 0.5], "to": [1, 0.5], "length": 16}
    near: ClassVar[dict[str, Any]] = {"near": {"distance": 4, "after": "80ms"}}
    element = Speed.model_validate(
        {"road": {"ground": ground, "window": "200ms", "limit": 10, **near, "polygon": MIDDLE}}
    )
    changed = Speed.model_validate({"unit": "mph", "road": {"ground": ground, "window": "100ms", "polygon": LEFT}})


class TestStopped(RuleConformance):
    element = Stopped.model_validate({"lane": {"after": "200ms", "distance": 0.5, "polygon": MIDDLE}})
    changed = Stopped.model_validate({"lane": {"after": "100ms", "polygon": LEFT}, "all": {"distance": 0.3}})


class TestHeatMaps(RuleConformance):
    element = HeatMaps.model_validate(
        {"standing": {"classes": ["person"], "grid": [16, 9]}, "ways": {"measure": "paths"}}
    )
    changed = HeatMaps.model_validate({"ways": {"measure": "dwell", "grid": [8, 8]}, "opacity": 0})


class TestHeatMapsThatFade(RuleConformance):
    element = HeatMaps.model_validate({"counter": {"measure": "dwell", "polygon": MIDDLE, "half_life": "1s"}})
    changed = HeatMaps.model_validate({"renamed": {"measure": "dwell", "polygon": LEFT, "half_life": "2s"}})


class TestCrowd(RuleConformance):
    element = Crowd.model_validate({"plaza": {"polygon": MIDDLE, "at_least": 2, "after": "80ms", "margin": 0.02}})
    changed = Crowd.model_validate({"plaza": {"polygon": LEFT, "at_least": 1, "after": 0, "clear_after": "120ms"}})


class TestLoitering(RuleConformance):
    element = Loitering.model_validate({"plaza": {"polygon": MIDDLE, "after": "160ms"}, "gone": "80ms"})
    changed = Loitering.model_validate({"renamed": {"polygon": LEFT, "after": "80ms", "within": 0.2}})


class TestLoiteringInOnePlace(RuleConformance):
    element = Loitering.model_validate({"plaza": {"polygon": MIDDLE, "after": "80ms", "within": 0.2}})
    changed = Loitering.model_validate({"plaza": {"polygon": MIDDLE, "after": "80ms", "within": 0.1}})


class TestAbsence(RuleConformance):
    element = Absence.model_validate({"plaza": {"polygon": MIDDLE, "after": "120ms"}, "gone": "40ms"})
    changed = Absence.model_validate({"plaza": {"polygon": LEFT, "after": "80ms", "longest_gap": "40ms"}})


class TestQueue(RuleConformance):
    element = Queue.model_validate(
        {"till": {"polygon": MIDDLE, "length_limit": 2, "after": "40ms", "wait_limit": "200ms"}, "gone": "80ms"}
    )
    changed = Queue.model_validate({"till": {"polygon": LEFT, "speed": 2.0, "length_limit": 1}})


class TestQueueWithAnExit(RuleConformance):
    element = Queue.model_validate({"till": {"polygon": MIDDLE, "exit": [[0.3, 0.6], [0.7, 0.6]]}, "gone": "80ms"})
    changed = Queue.model_validate({"till": {"polygon": MIDDLE, "exit": [[0.1, 0.3], [0.4, 0.3], [0.4, 0.8]]}})


class TestParking(RuleConformance):
    element = Parking.model_validate(
        {"P1": {"polygon": MIDDLE, "after": "80ms", "overtime": "120ms"}, "P2": {"polygon": LEFT, "after": "80ms"}}
    )
    changed = Parking.model_validate({"P1": {"polygon": LEFT, "after": "40ms"}, "gone": "40ms"})


class TestFlows(RuleConformance):
    element = Flows.model_validate({"middle": {"polygon": MIDDLE}, "top": {"polygon": TOP}, "gone": "40ms"})
    changed = Flows.model_validate({"middle": {"polygon": LEFT}, "above": {"polygon": TOP}, "within": "40ms"})


class TestFlowsOfWholeTrips(RuleConformance):
    element = Flows.model_validate(
        {"low": {"polygon": LOW}, "middle": {"polygon": MIDDLE}, "within": "120ms", "through": False}
    )
    changed = Flows.model_validate({"low": {"polygon": LOW}, "middle": {"polygon": LEFT}, "within": "80ms"})


def test_every_installed_rule_is_here() -> None:
    registry = Registry()
    kinds = {registry.element(name) for name in registry.element_names}
    tested = {type(case.element) for case in RuleConformance.__subclasses__() if case.__module__ == __name__}

    assert tested == {kind for kind in kinds if issubclass(kind, Rule)}
