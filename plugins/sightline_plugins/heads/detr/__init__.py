"""Heads of networks that give a fixed set of boxes, each with a score for every class (the DETR family)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline_plugins.heads.detr import detr
from sightline_plugins.heads.head import Head

HEADS: Sequence[Head[Any]] = (detr.DETR, detr.RT_DETR, detr.RF_DETR)
