"""Heads of all installed packages, by name, and the choice of the one that reads a model's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sightline.errors import ModelError
from sightline.graph.registry import Extensions
from sightline_plugins.heads.head import Candidates, Head, MatchScore, Signature

GROUP = "sightline.heads"
"""Entry points that name `Head` objects. First-party heads are found in the same way as anybody's."""


HEADS: Mapping[str, Head[Any]] = Extensions(GROUP, accepts=lambda found: isinstance(found, Head), kind="head")
"""Heads by name, in alphabetical order. Listing names imports none; looking one up imports its module."""


def heads_of(task: str) -> Mapping[str, Head[Any]]:
    """Return the heads whose results an element of that task can use, by name: `detect` takes all that find boxes."""
    return {
        name: head
        for name, head in HEADS.items()
        if head.task == task or (task == "detect" and head.result_type is Candidates)
    }


def match_head(signature: Signature, heads: Iterable[Head[Any]]) -> str:
    """Return the name of the one head that fits a model's outputs.

    Raises ModelError with the candidates when several fit equally well, and with all heads when none does.
    """
    scores = {head.name: head.match_score(signature) for head in heads}
    certain = [name for name, score in scores.items() if score is MatchScore.CERTAIN]
    matches = certain or [name for name, score in scores.items() if score is MatchScore.POSSIBLE]
    if len(matches) == 1:
        return matches[0]
    outputs = "; ".join(map(str, signature.outputs))
    if matches:
        raise ModelError(f"its outputs ({outputs}) fit several heads: set head to one of {', '.join(sorted(matches))}")
    if "classify" not in scores and HEADS["classify"].match_score(signature) is MatchScore.CERTAIN:
        raise ModelError(f"its outputs ({outputs}) are those of a classifier: use the step `classify`, or set head")
    raise ModelError(f"its outputs ({outputs}) fit no head: set head to one of {', '.join(scores)}")
