"""Rewrite ONNX graphs, before an engine loads them, into forms that compute the same faster.

Each rule is a small function on a `Graph` that returns how many places it changed. Rules know patterns, not models.
They are exact up to the rounding of float32 sums in another order; `engines.rewriting` proves it for each model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx

from sightline_plugins.onnx_graph.channels import fold_focus, make_planes, pick_channels, split_permutations
from sightline_plugins.onnx_graph.constants import fold_constants, remove_idle, store_constants
from sightline_plugins.onnx_graph.graph import Graph
from sightline_plugins.onnx_graph.layout import (
    convolve_before_upsampling,
    transpose_before_concat,
    transpose_before_flattening,
)

Rule = Callable[[Graph], int]

CLEANING: tuple[Rule, ...] = (store_constants, fold_constants, remove_idle)
COMMON: tuple[Rule, ...] = (
    *CLEANING,
    fold_focus,
    pick_channels,
    convolve_before_upsampling,
)
REPAIRS: tuple[Rule, ...] = (split_permutations,)
"""Rules that OpenVINO needs for right results."""
OPENVINO: tuple[Rule, ...] = (*COMMON, make_planes, transpose_before_concat, transpose_before_flattening, *REPAIRS)


def rewrite(model: onnx.ModelProto, rules: Sequence[Rule]) -> onnx.ModelProto:
    """Apply `rules` until none finds anything more. `model` itself may change."""
    graph = Graph(model)
    apply_rules(graph, rules)
    return graph.to_model()


def apply_rules(graph: Graph, rules: Sequence[Rule]) -> int:
    """Apply `rules` in turn until none finds anything more; return how many places changed."""
    total = 0
    while changed := sum(rule(graph) for rule in rules):
        total += changed
    return total
