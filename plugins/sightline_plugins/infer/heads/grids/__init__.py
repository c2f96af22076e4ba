"""Heads whose boxes belong to the cells of grids that lie over the picture, without anchors."""

from collections.abc import Sequence
from typing import Any

from sightline_plugins.infer.heads.grids import centernet, detectnet, distribution, fcos
from sightline_plugins.infer.heads.head import Head

HEADS: Sequence[Head[Any]] = (
    distribution.NANODET,
    distribution.NANODET_PLUS,
    distribution.PICODET,
    fcos.HEAD,
    centernet.HEAD,
    detectnet.HEAD,
)
