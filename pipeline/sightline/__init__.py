"""Sightline: video analytics pipelines in Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.errors import SightlineError
    from sightline.graph.element import Element
    from sightline.graph.operator import Operator, Pending, Sink
    from sightline.graph.tree import Parallel, Tee
    from sightline.media.batch import Batch, FrameView
    from sightline.media.frame import Frame
    from sightline.media.objects import Objects
    from sightline.media.surface import Surface
    from sightline.pipeline import Pipeline

_HOMES = {
    "Batch": "sightline.media.batch",
    "Element": "sightline.graph.element",
    "Frame": "sightline.media.frame",
    "FrameView": "sightline.media.batch",
    "Objects": "sightline.media.objects",
    "Operator": "sightline.graph.operator",
    "Parallel": "sightline.graph.tree",
    "Pending": "sightline.graph.operator",
    "Pipeline": "sightline.pipeline",
    "SightlineError": "sightline.errors",
    "Sink": "sightline.graph.operator",
    "Surface": "sightline.media.surface",
    "Tee": "sightline.graph.tree",
}

__all__ = [
    "Batch",
    "Element",
    "Frame",
    "FrameView",
    "Objects",
    "Operator",
    "Parallel",
    "Pending",
    "Pipeline",
    "SightlineError",
    "Sink",
    "Surface",
    "Tee",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sightline' has no attribute {name!r}")
