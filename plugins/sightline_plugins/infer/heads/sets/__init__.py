"""Heads of networks that give a fixed set of boxes, each with a score for every class (the DETR family)."""

from collections.abc import Sequence
from typing import Any

from sightline_plugins.infer.heads.head import Head
from sightline_plugins.infer.heads.sets import detr

HEADS: Sequence[Head[Any]] = (detr.DETR, detr.RT_DETR, detr.RF_DETR)
