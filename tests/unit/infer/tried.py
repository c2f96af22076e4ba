"""Models that do wrong what `tiny.write_detector` does right, and frames to try them on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from sightline.graph import Message, MessageKind
from sightline.graph.site import SystemClock
from sightline.media import Batch, Frame, PixelFormat, Stream
from sightline.media.convert import surface_from_rgb
from sightline.testing.run import site_for
from sightline_plugins.infer.detect import Detect
from sightline_plugins.infer.exchange import ExchangeableModel
from tests.unit.infer.tiny import LABELS, image, write_detector

SLOW_SIDE = 1024
PROVE_NS = 5_000_000_000
RIGHT = [(0, "pink", [40.0, 24.0, 48.0, 32.0]), (0, "yellow", [8.0, 8.0, 16.0, 16.0])]
SWAPPED = [(0, "pink", [8.0, 8.0, 16.0, 16.0]), (0, "yellow", [40.0, 24.0, 48.0, 32.0])]


def write_not_finite(path: Path) -> Path:
    """Its boxes are not numbers."""
    return write_detector(path, offset=float("nan"))


def write_swapped_classes(path: Path) -> Path:
    """It calls yellow pink, and pink yellow."""
    order = numpy_helper.from_array(np.array([0, 1, 2, 3, 4, 6, 5]), "order")
    return _behind(path, [helper.make_node("Gather", ["map_of_before", "order"], ["map"], axis=1)], [order])


def write_slow(path: Path) -> Path:
    """It multiplies matrices of 1024 x 1024, twice, and finds the same."""
    ones = numpy_helper.from_array(np.full((SLOW_SIDE, SLOW_SIDE), 1e-3, np.float32), "ones")
    small = numpy_helper.from_array(np.array([1e-9], np.float32), "small")
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["level"], axes=[0, 1, 2, 3], keepdims=0),
        helper.make_node("Mul", ["ones", "level"], ["first"]),
        helper.make_node("MatMul", ["first", "first"], ["second"]),
        helper.make_node("MatMul", ["second", "first"], ["third"]),
        helper.make_node("ReduceMean", ["third"], ["average"], axes=[0, 1], keepdims=0),
        helper.make_node("Mul", ["average", "small"], ["nearly_nothing"]),
        helper.make_node("Add", ["map_of_before", "nearly_nothing"], ["map"]),
    ]
    return _behind(path, nodes, [ones, small])


def write_raising(path: Path) -> Path:
    """It works on gray images; where something is bright, it looks for a value behind the end of a table."""
    table = numpy_helper.from_array(np.zeros(4, np.float32), "table")
    many = numpy_helper.from_array(np.array(6, np.float32), "many")
    nodes = [
        helper.make_node("ReduceMax", ["images"], ["brightest"], axes=[0, 1, 2, 3], keepdims=0),
        helper.make_node("Mul", ["brightest", "many"], ["place"]),
        helper.make_node("Cast", ["place"], ["number"], to=onnx.TensorProto.INT64),
        helper.make_node("Gather", ["table", "number"], ["value"], axis=0),
        helper.make_node("Add", ["map_of_before", "value"], ["map"]),
    ]
    return _behind(path, nodes, [table, many])


def frames(count: int, *, stream: str = "cam", first: int = 0) -> list[Frame]:
    """Frames with a yellow and a pink block."""
    rgb = image((1, 1, "yellow"), (5, 3, "pink"), size_wh=(64, 64))
    surface = surface_from_rgb(rgb, pixel_format=PixelFormat.RGB24)
    return [Frame(Stream(stream), first + index, (first + index) * 40_000_000, surface) for index in range(count)]


def found(batch: Batch) -> list[tuple[int, str, list[float]]]:
    """The row, label and rounded box of each object."""
    objects = batch.objects
    return sorted(
        (row, label, [round(side, 1) for side in box])
        for row, label, box in zip(objects.frame.tolist(), objects.labels(), objects.xyxy.tolist(), strict=True)
    )


class MovedClock(SystemClock):
    """The machine's clock, which the test sets forward."""

    ahead_ns = 0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.ahead_ns


class Step:
    """A step of `detect` with a model that does right, and what comes out of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.messages, self.clock, self.count = folder, list[Message](), MovedClock(), 0
        site = replace(site_for("detect-1", None, self.messages), clock=self.clock)
        self.operator = Detect.build(self.element(write_detector(folder / "right.onnx")), site)
        assert isinstance(self.operator, ExchangeableModel)

    def element(self, model: Path, **options: Any) -> Detect:
        given = {"model": model, "labels": LABELS, "color": "rgb", "confidence": 0.5, "engine": "onnxruntime"}
        return Detect.model_validate({**given, "precision": "fp32", **options})

    def swap(self, write: Callable[[Path], Path], *, prove_ns: int = PROVE_NS, **options: Any) -> Detect:
        element = self.element(write(self.folder / f"{write.__name__}.onnx"), **options)
        assert isinstance(self.operator, ExchangeableModel)
        self.operator.prepare(element, prove_ns=prove_ns)
        self.operator.change(element)
        return element

    def run(self, count: int = 1) -> Batch:
        return self.give(frames(count, first=self.count))

    def give(self, given: list[Frame]) -> Batch:
        result = self.operator.process(Batch(tuple(given)))
        self.count += len(given)
        return result if isinstance(result, Batch) else result.result()

    def newest(self) -> dict[str, Any]:
        return dict(self.operator.totals()["models"][-1])

    def told(self, kind: MessageKind) -> list[str]:
        return [message.text for message in self.messages if message.kind is kind]


def _behind(path: Path, nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto]) -> Path:
    """Write a detector whose output goes through these nodes, from `map_of_before` to `map`."""
    model = onnx.load(str(write_detector(path)))
    for node in model.graph.node:
        if "map" in node.output:
            node.output[0] = "map_of_before"
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(constants)
    onnx.save(model, str(path))
    return path
