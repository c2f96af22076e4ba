from __future__ import annotations

from sightline.testing.rule_conformance import RuleConformance
from sightline_plugins import Lines, Zones

MIDDLE = [[0.3, 0.3], [0.7, 0.3], [0.7, 0.8], [0.3, 0.8]]


class TestLines(RuleConformance):
    element = Lines.model_validate({"gate": {"from": [0.2, 0.5], "to": [0.8, 0.5]}})


class TestLinesInPixels(RuleConformance):
    element = Lines.model_validate({"pixels": True, "gate": {"from": [0, 60], "to": [159, 60], "margin": 2}})


class TestZones(RuleConformance):
    element = Zones.model_validate({"plaza": {"polygon": MIDDLE, "dwell": "100ms", "limit": 1, "margin": 0.02}})
