"""Heads whose boxes are corrections of boxes that are known beforehand (anchors, priors, default boxes)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline_plugins.heads.anchor_based import retinanet, ssd
from sightline_plugins.heads.head import Head

HEADS: Sequence[Head[Any]] = (ssd.HEAD, retinanet.HEAD)
