"""ONNX graphs rewritten, before an engine loads them, into forms that compute the same faster.

Each rule is a small function on a `Graph` that says how many places it changed. Rules know patterns, no models. All of
them are exact up to the rounding of float32 sums in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import onnx

from sightline_plugins.onnx_graph.channels import fold_focus, make_planes, pick_channels
from sightline_plugins.onnx_graph.constants import fold_constants, remove_idle, store_constants
from sightline_plugins.onnx_graph.graph import Graph
from sightline_plugins.onnx_graph.layout import (
    convolve_before_upsampling,
    softmax_over_channels,
    transpose_before_concat,
    transpose_before_flattening,
)

Rule = Callable[[Graph], int]

CLEANING: tuple[Rule, ...] = (store_constants, fold_constants, remove_idle)
COMMON: tuple[Rule, ...] = (
    *CLEANING,
    fold_focus,
    pick_channels,
    softmax_over_channels,
    convolve_before_upsampling,
)
OPENVINO: tuple[Rule, ...] = (*COMMON, make_planes, transpose_before_concat, transpose_before_flattening)


def simplify(model: onnx.ModelProto, *, engine: Literal["openvino", "onnxruntime"]) -> onnx.ModelProto:
    """`model`, rewritten for `engine` with all rules until none finds anything more. `model` itself may change."""
    graph = Graph(model)
    apply_rules(graph, OPENVINO if engine == "openvino" else COMMON)
    return graph.to_model()


def apply_rules(graph: Graph, rules: tuple[Rule, ...]) -> int:
    """Applies `rules` in turn until none finds anything more; how many places changed."""
    total = 0
    while changed := sum(rule(graph) for rule in rules):
        total += changed
    return total


def clean(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` without constants to compute and nodes that do nothing."""
    graph = Graph(model)
    apply_rules(graph, CLEANING)
    return graph.to_model()
