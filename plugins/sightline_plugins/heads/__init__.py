"""Heads: read what a model's raw outputs mean. The contract is `head.py`; `registry.py` finds installed heads."""

from sightline_plugins.heads.head import (
    Candidates,
    ClassMap,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    Points,
    Scores,
    Signature,
    TaskName,
    Text,
    Vector,
)

__all__ = [
    "Candidates",
    "ClassMap",
    "DecodeContext",
    "Head",
    "HeadOptions",
    "MatchScore",
    "Points",
    "Scores",
    "Signature",
    "TaskName",
    "Text",
    "Vector",
]
