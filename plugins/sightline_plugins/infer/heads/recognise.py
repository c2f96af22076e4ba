"""Which head reads a model's outputs, told from their shapes where only one can be meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sightline.errors import ModelError
from sightline_plugins.infer.heads.head import Head, Likeness, Signature


def recognise(signature: Signature, heads: Iterable[Head[Any]]) -> str:
    """The name of the head for these outputs. Raises ModelError with the likely ones when several could be meant,
    and with all when none could.
    """
    found = {head.name: head.likeness(signature) for head in heads}
    sure = [name for name, likeness in found.items() if likeness is Likeness.SURE]
    likely = sure or [name for name, likeness in found.items() if likeness is Likeness.POSSIBLE]
    if len(likely) == 1:
        return likely[0]
    shapes = "; ".join(map(str, signature.outputs))
    if likely:
        raise ModelError(f"its outputs ({shapes}) fit several heads: set head to one of {', '.join(sorted(likely))}")
    raise ModelError(f"its outputs ({shapes}) fit no head that is known here: set head to one of {', '.join(found)}")
