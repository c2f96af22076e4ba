"""What unquoted texts mean: YAML 1.2, and nothing that surprises."""

from __future__ import annotations

import math

import pytest

from sightline.config.document import Value, value_of
from sightline.config.yaml_tree import parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("FALSE", False),
        ("yes", "yes"),
        ("on", "on"),
        ("12", 12),
        ("-3", -3),
        ("0o17", 15),
        ("0xff", 255),
        ("007", 7),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", -math.inf),
        (".INF", math.inf),
        ("12:30:00", "12:30:00"),
        ("2026-01-02", "2026-01-02"),
        ("1_000", "1_000"),
        ("40ms", "40ms"),
        ("9" * 200, "9" * 200),
    ],
)
def test_an_unquoted_text_means_what_yaml_1_2_says(text: str, value: Value) -> None:
    assert value_of(text) == value


def test_not_a_number_is_a_number() -> None:
    value = value_of(".NaN")

    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize("text", ["'12'", '"12"', "!!str 12", "! 12", "|-\n  12"])
def test_a_quoted_text_stays_a_text(text: str) -> None:
    from sightline.config.document import plain

    root = parse(f"a: {text}\n", name="p.yaml").root

    assert root is not None
    assert plain(root) == {"a": "12"}


def test_a_byte_order_mark_is_passed_over(load: object) -> None:
    description = load("\ufeffname: a\nsources: {gate: gate.mp4}\npipeline: [jsonl: o.jsonl]\n")  # type: ignore[operator]

    assert description.name == "a"
