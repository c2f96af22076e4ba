"""Heads whose boxes belong to the cells of grids that lie over the image, without anchors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline_plugins.heads.dense import centernet, detectnet, distribution, fcos
from sightline_plugins.heads.head import Head

HEADS: Sequence[Head[Any]] = (
    distribution.NANODET,
    distribution.NANODET_PLUS,
    distribution.PICODET,
    fcos.HEAD,
    centernet.HEAD,
    detectnet.HEAD,
)
