"""Networks of the graph corpus that tests of rewriting share, in the settings that those ask for."""

from __future__ import annotations

from dataclasses import replace

import onnx
from benchmarks.graph_corpus.builder import Builder, Listed, Map
from benchmarks.graph_corpus.registry import structures


def nanodet(*, listed: Listed = "some") -> onnx.ModelProto:
    """NanoDet-m as published with ONNX samples: ShuffleNetV2 whose weights may be graph inputs as well (IR version 3),
    a feature pyramid, and six outputs. "image" (1, 3, 64, 64).
    """
    return replace(structures()["nanodet-ir3"], listed=listed).model()


def permuted(order: tuple[int, ...]) -> onnx.ModelProto:
    """Channels in another order, and two convolutions: "y" of "x" (1, C, 8, 8)."""
    build, count = Builder(), len(order)
    x = build.input("x", (1, count, 8, 8))
    picked = Map(build.add("Gather", x, build.constant(order), axis=1), count, 8, 8)
    build.conv(build.conv(picked, count, 3, group=count), 5, act="")
    build.nodes[-1].output[0] = "y"
    build.output("y")
    return build.model()
