"""Find the head that reads a model's outputs by their names, shapes and dtypes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sightline.errors import ModelError
from sightline_plugins.heads.head import Head, MatchScore, Signature


def recognise(signature: Signature, heads: Iterable[Head[Any]]) -> str:
    """The name of the head for these outputs. Raises ModelError with the likely ones when several could be meant,
    and with all when none could.
    """
    found = {head.name: head.match_score(signature) for head in heads}
    sure = [name for name, match_score in found.items() if match_score is MatchScore.CERTAIN]
    likely = sure or [name for name, match_score in found.items() if match_score is MatchScore.POSSIBLE]
    if len(likely) == 1:
        return likely[0]
    shapes = "; ".join(map(str, signature.outputs))
    if likely:
        raise ModelError(f"its outputs ({shapes}) fit several heads: set head to one of {', '.join(sorted(likely))}")
    raise ModelError(f"its outputs ({shapes}) fit no head that is known here: set head to one of {', '.join(found)}")
