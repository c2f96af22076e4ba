"""Options whose form a regular expression describes."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from sightline_plugins.delivery.nats import JetStream
from sightline_plugins.rules.names import RuleName


@pytest.mark.parametrize("text", ["lines.gate_in", "lines-1.gate_in.in", "zones.Straße"])
def test_a_text_of_that_form_is_kept(text: str) -> None:
    assert TypeAdapter(RuleName).validate_python(text) == text


@pytest.mark.parametrize("text", ["lines", "lines gate.in", "lines.gate in", ".gate", "lines.gate\n", ""])
def test_another_text_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValidationError, match=r"must be `step.rule` or `step.rule.direction`, not "):
        TypeAdapter(RuleName).validate_python(text)


def test_editors_get_the_form_as_a_pattern() -> None:
    assert TypeAdapter(RuleName).json_schema()["pattern"] == r"^(?:[A-Za-z0-9_-]+\.\S+)$"
    assert JetStream.model_json_schema()["properties"]["stream"]["maxLength"] == 255
