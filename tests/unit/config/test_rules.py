"""Rules that options name, against those of the steps before."""

from __future__ import annotations

import pytest

from sightline.config.step_checks import unknown_rules
from sightline.graph import Tee
from sightline.graph.tree import Step
from sightline_plugins import Lines, Record, Zones

GATE = Lines.model_validate({"gate_in": {"from": [0.1, 0.5], "to": [0.9, 0.5]}})
DOOR = Zones.model_validate({"id": "door", "door.step": {"polygon": [[0, 0], [1, 0], [1, 1]]}})


def record(*names: str) -> Record:
    return Record.model_validate({"path": "{time}.mp4", "on": list(names)})


def told(*steps: Step) -> list[str]:
    return [message for _, message in unknown_rules(steps, streams=("gate",))]


@pytest.mark.parametrize(
    "name", ["lines.gate_in", "lines-1.gate_in", "lines.gate_in.in", "door.door.step", "door.door.step.enter"]
)
def test_a_rule_of_a_step_before_is_no_mistake(name: str) -> None:
    assert told(GATE, DOOR, record(name)) == []


def test_an_unknown_rule_is_told_at_its_place_with_the_nearest_one() -> None:
    ((key, message),) = unknown_rules((GATE, record("lines.gate_in", "lines.gate_out")), streams=("gate",))

    assert key == ("pipeline", 1, "record", "on", 1)
    assert message.startswith("no step before it has the rule 'lines.gate_out'")
    assert "lines-1.gate_in" in message


def test_a_rule_in_another_branch_is_unknown() -> None:
    assert len(told(DOOR, Tee(branches={"a": (GATE,), "b": (record("lines.gate_in"),)}))) == 1


def test_that_no_events_come_at_all_is_not_told_here() -> None:
    assert told(record("lines.gate_in")) == []
