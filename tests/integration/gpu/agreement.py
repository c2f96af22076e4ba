"""Whether two recordings say the same of the same frames, as far as engines that round differently can."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

LEAST_OVERLAP = 0.99
MOST_OFF = 0.01


def assert_agree(one: bytes, other: bytes) -> None:
    """Same frames, same things in the same order with the same names; boxes overlap, confidences are close."""
    lines = [[json.loads(line) for line in content.splitlines()] for content in (one, other)]
    assert [_frame(line) for line in lines[0]] == [_frame(line) for line in lines[1]]
    for first, second in zip(*lines, strict=True):
        for thing, again in zip(first.get("objects", ()), second.get("objects", ()), strict=True):
            where = f"frame {first['frame']}: {thing} and {again}"
            assert _named(thing) == _named(again), where
            assert overlap(thing["box"], again["box"]) >= LEAST_OVERLAP, where
            assert abs(thing["confidence"] - again["confidence"]) <= MOST_OFF, where
            _assert_same_attributes(thing.get("attributes", {}), again.get("attributes", {}), where)


def overlap(one: list[float], other: list[float]) -> float:
    """Intersection over union."""
    a, b = np.array(one), np.array(other)
    shared = float(np.prod(np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None)))
    return shared / float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - shared)


def _frame(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["frame"], line["pts_ns"], len(line.get("objects", ()))


def _named(thing: dict[str, Any]) -> tuple[Any, ...]:
    return thing["label"], thing["class_id"], thing.get("track_id")


def _assert_same_attributes(one: dict[str, Any], other: dict[str, Any], where: str) -> None:
    assert one.keys() == other.keys(), where
    for name, value in one.items():
        if isinstance(value, float):
            assert abs(value - other[name]) <= MOST_OFF, where
        else:
            assert value == other[name], where
