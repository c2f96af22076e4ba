"""Heads of face detectors, most of which find five landmarks too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline_plugins.heads.faces import retinaface, scrfd, ultraface, yunet
from sightline_plugins.heads.head import Head

HEADS: Sequence[Head[Any]] = (yunet.HEAD, ultraface.HEAD, scrfd.HEAD, retinaface.HEAD)
