"""Which boxes nvinfer leaves out for their size, and how many of a class stay: sections [class-attrs-all] and those of
single classes become `min_size`, `max_size`, `max_per_class` and `class_limits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sightline_plugins.deepstream_import.settings import Settings
from sightline_plugins.infer.options import MOST_DETECTIONS

_ALL, _CLASS = "class-attrs-all", "class-attrs-"
_ANY_LENGTH = 65_536
"""Of a side that is not limited, where the other one is."""
_UNLIMITED: Mapping[str, Any] = {
    "min_size": [1, 1],
    "max_size": [_ANY_LENGTH, _ANY_LENGTH],
    "max_detections": MOST_DETECTIONS,
}


def box_sizes(classes: Mapping[str, Settings], labels: Sequence[str]) -> dict[str, Any]:
    """Return the options of a step. `classes` are the sections by name. Raises ConfigurationError for wrong numbers."""
    usual = _limits(classes[_ALL], None) if _ALL in classes else {}
    found = {"max_per_class" if key == "max_detections" else key: value for key, value in usual.items()}
    own = {}
    for number, label in enumerate(labels):
        if (settings := classes.get(f"{_CLASS}{number}")) is not None:
            limits = _limits(settings, classes.get(_ALL))
            lifted = {key: _UNLIMITED[key] for key in usual if key not in limits}
            own[label] = {key: value for key, value in (limits | lifted).items() if usual.get(key) != value}
    own = {label: limits for label, limits in own.items() if limits}
    return found | ({"class_limits": own} if own else {})


def _limits(settings: Settings, usual: Settings | None) -> dict[str, Any]:
    """Return the limits of a section; what it does not give is that of all classes."""

    def number(key: str) -> int:
        owner = usual if usual is not None and key not in settings else settings
        return max(owner.whole(key, 0), 0)

    smallest = [number(f"detected-min-{side}") for side in "wh"]
    largest = [number(f"detected-max-{side}") for side in "wh"]
    most = number("topk")
    found: dict[str, Any] = {}
    if any(smallest):
        found["min_size"] = [side or 1 for side in smallest]
    if any(largest):
        found["max_size"] = [side or _ANY_LENGTH for side in largest]
    if most:
        found["max_detections"] = min(most, MOST_DETECTIONS)
    return found
