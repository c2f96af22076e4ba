"""Heads of models that choose their boxes themselves, each in the order and units of its framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline_plugins.heads.end_to_end import detection_output, object_detection_api, paddle, selected_indices
from sightline_plugins.heads.head import Head

HEADS: Sequence[Head[Any]] = (object_detection_api.HEAD, paddle.HEAD, detection_output.HEAD, selected_indices.HEAD)
