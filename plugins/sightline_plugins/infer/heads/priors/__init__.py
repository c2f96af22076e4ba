"""Heads whose boxes are corrections of boxes that are known beforehand (anchors, priors, default boxes)."""

from collections.abc import Sequence
from typing import Any

from sightline_plugins.infer.heads.head import Head
from sightline_plugins.infer.heads.priors import retinanet, ssd

HEADS: Sequence[Head[Any]] = (ssd.HEAD, retinanet.HEAD)
