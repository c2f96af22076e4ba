"""Heads of models that choose their boxes themselves, each in the order and units of its framework."""

from collections.abc import Sequence
from typing import Any

from sightline_plugins.infer.heads.finished import detection_output, object_detection_api, paddle, selected_indices
from sightline_plugins.infer.heads.head import Head

HEADS: Sequence[Head[Any]] = (object_detection_api.HEAD, paddle.HEAD, detection_output.HEAD, selected_indices.HEAD)
