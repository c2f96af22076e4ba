"""What reading a model's outputs costs on the CPU, beside its inference and beside plain NumPy, measured in turn.

    python -m benchmarks.heads [--rounds 40] [--data ../shared/data]

Each head reads outputs as a trained model gives them, in the shapes of a published model: checks, decoding,
suppression, masks at the size of the frame (1280x720). Inference is that of the model itself where the shared data has
it. Where not, it is a chain of convolutions with as many operations as the smallest published model of the family;
such a chain computes faster than a real model, so that shares are rather too high. One thread; medians of CPU time.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
from benchmarks.graph_corpus.builder import Builder
from benchmarks.graph_passes import DATA, processor
from benchmarks.heads import outputs as made
from benchmarks.heads import plain
from onnx import helper, numpy_helper

from sightline.devices import Device
from sightline.graph.site import Site
from sightline.testing import make_batches, make_frames
from sightline_plugins.engines.openvino import OpenVino, core
from sightline_plugins.engines.rewriting import example_feeds
from sightline_plugins.infer.detect import Detect
from sightline_plugins.infer.options import DetectionElement
from sightline_plugins.infer.pose import Pose
from sightline_plugins.infer.requests import read_outputs
from sightline_plugins.infer.segment import Segment
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.onnx_graph.inputs import fix_batch, fix_size
from sightline_plugins.onnx_graph.simplify import OPENVINO, rewrite

Outputs = list[np.ndarray[Any, Any]]
Run = Callable[[], object]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A head with the outputs of one image, and how a plain loop reads them.

    The network is `model` of the shared data, or a chain of convolutions of `gflops`.
    """

    name: str
    element: type[DetectionElement]
    head: str
    size_wh: tuple[int, int]
    outputs: Outputs
    plain: Callable[[Outputs], object]
    classes: int = 80
    gflops: float = 0.0
    model: str = ""
    options: dict[str, Any] = field(default_factory=dict)


def cases() -> list[Case]:
    """The heads that are measured."""
    cells = (80 * 80, 40 * 40, 20 * 20)
    return [
        Case("YOLOv8n-pose, 640x640", Pose, "yolov8_pose", (640, 640), made.poses(), plain.poses, 1, 9.2),
        Case("YOLOv8n-seg, 640x640", Segment, "yolov8_seg", (640, 640), made.instances(), plain.instances, 80, 12.6),
        Case(
            "YOLOv8n, 640x640",
            Detect,
            "yolov8",
            (640, 640),
            [made.table(side=640, boxes=8400, classes=80, extra=0)],
            plain.boxes,
            80,
            8.7,
        ),
        Case(
            "DeepLab v3, 257x257, 21 classes",
            Segment,
            "class_map",
            (257, 257),
            made.class_map(rows=257, columns=257, classes=21, last=True),
            plain.class_map,
            21,
            model="deeplab_v3_257.onnx",
        ),
        Case(
            "PIDNet-S, 640x640, 19 classes, map at an eighth",
            Segment,
            "class_map",
            (640, 640),
            made.class_map(rows=80, columns=80, classes=19),
            plain.class_map,
            19,
            9.3,
        ),
        Case(
            "PIDNet-S, 640x640, 19 classes, whole map",
            Segment,
            "class_map",
            (640, 640),
            made.class_map(rows=640, columns=640, classes=19),
            plain.class_map,
            19,
            9.3,
        ),
        Case(
            "SSDLite MobileNet v2, 300x300",
            Detect,
            "ssd",
            (300, 300),
            made.priors(boxes=1917, classes=91, logits=True),
            partial(plain.priors, anchors=_anchors(1917, 300), logits=True),
            90,
            1.5,
        ),
        Case(
            "RetinaNet R50, 640x640",
            Detect,
            "retinanet",
            (640, 640),
            made.priors(boxes=76725, classes=80, logits=True),
            partial(plain.priors, anchors=_anchors(76725, 640), logits=True),
            80,
            95.0,
        ),
        Case(
            "RetinaFace MobileNet 0.25, 640x640",
            Detect,
            "retinaface",
            (640, 640),
            made.faces(boxes=16800),
            partial(plain.faces, anchors=_anchors(16800, 640)),
            1,
            2.0,
        ),
        Case(
            "YuNet, 640x640",
            Detect,
            "yunet",
            (640, 640),
            made.face_cells(sizes=cells),
            partial(plain.face_cells, anchors=_anchors(sum(cells), 640)),
            1,
            model="yunet_n_dynamic.onnx",
        ),
    ]


def _anchors(count: int, side: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).uniform(0.1, 0.3, (count, 4)).astype(np.float32) * side


def reader(case: Case, folder: Path) -> Run:
    """Return a function that reads the outputs once, as the operator of the element does."""
    path = folder / f"{case.head}-{len(list(folder.iterdir()))}.onnx"
    onnx.save(_constant_model(case), path)
    element = case.element.model_validate(
        {
            "model": path,
            "head": case.head,
            "labels": [f"class{number}" for number in range(case.classes)],
            "confidence": plain.CONFIDENCE if case.head != "class_map" else None,
            **case.options,
        }
    )
    plan, problems = element.plan()
    if plan is None:
        raise SystemExit(f"{case.name}: {[problem.message for problem in problems]}")
    postprocessor = element.postprocessor(plan, Site(Device(), element_id="step"))
    (batch,) = make_batches(make_frames(1, size_wh=plain.FRAME_WH))
    target = InferenceTarget(0, plan.preprocessing.place((0, 0, *plain.FRAME_WH)))
    result = read_outputs(postprocessor, case.outputs, target, batch).result
    if result is None or not len(result.candidates):
        raise SystemExit(f"{case.name}: nothing was found")
    return partial(read_outputs, postprocessor, case.outputs, target, batch)


def _constant_model(case: Case) -> onnx.ModelProto:
    """A model whose outputs have the shapes of the case: what the element plans with."""
    names = ["boxes", "scores", "points"] if case.head in ("ssd", "retinanet", "retinaface") else []
    nodes, values, specs = [], [], []
    for place, output in enumerate(case.outputs):
        name = names[place] if names else f"output{place}"
        values.append(numpy_helper.from_array(output, f"{name}_values"))
        nodes.append(helper.make_node("Mul", [f"{name}_values", "nothing"], [name]))
        specs.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, output.shape))
    width, height = case.size_wh
    nodes.insert(0, helper.make_node("ReduceMin", ["image"], ["nothing"], keepdims=0))
    image = helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [1, 3, height, width])
    graph = helper.make_graph(nodes, "head", [image], specs, values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def network(case: Case, data: Path) -> Run:
    """Return a function that computes the network once, on one thread."""
    if case.model:
        model = onnx.load(data / "models" / case.model)
        fix_batch(model)
        fix_size(model, case.size_wh)
        model = rewrite(model, OPENVINO)
    else:
        model = chain(case.size_wh, gflops=case.gflops)
    options = {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = core().compile_model(core().read_model(model.SerializeToString()), "CPU", options).create_infer_request()
    feeds = {name: np.ascontiguousarray(value) for name, value in example_feeds(model, None)[0].items()}
    return lambda: request.infer(feeds, share_inputs=True, share_outputs=True)


def chain(size_wh: tuple[int, int], *, gflops: float) -> onnx.ModelProto:
    """A network of that many operations: convolutions of 3x3 with 64 channels at an eighth of the input."""
    b = Builder()
    width, height = size_wh
    x = b.image(width) if width == height else None
    assert x is not None, "a square input is expected"
    for channels in (16, 32, 64):
        x = b.conv(x, channels, 3, stride=2)
    done, each = 0.0, 2 * 64 * 64 * 9 * x.pixels / 1e9
    while done < gflops:
        x = b.conv(x, 64, 3)
        done += each
    b.output(b.same("ReduceMean", x, keepdims=0))
    return b.model()


@dataclass(slots=True)
class Figures:
    """Milliseconds of each round."""

    ours: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    network: list[float] = field(default_factory=list)

    def row(self, case: Case) -> str:
        """The line of the table."""
        ours, slow, whole = (statistics.median(one) for one in (self.ours, self.plain, self.network))
        ratio = statistics.median(b / a for a, b in zip(self.ours, self.plain, strict=True))
        share = statistics.median(a / b for a, b in zip(self.ours, self.network, strict=True))
        where = "the model" if case.model else f"{case.gflops:g} GFLOP"
        cells = (case.name, f"`{case.head}`", f"{ours:.2f}", f"{slow:.2f}", f"{ratio:.1f} x", f"{whole:.1f} ({where})")
        return f"| {' | '.join(cells)} | {share:.1%} |"


def measured(case: Case, *, rounds: int, data: Path, folder: Path) -> str:
    """Measure one head; its line of the table."""
    ways: tuple[Run, ...] = (reader(case, folder), partial(case.plain, case.outputs), network(case, data))
    figures = Figures()
    for number in range(rounds + 2):
        for way, times in zip(ways, (figures.ours, figures.plain, figures.network), strict=True):
            begin = time.process_time()
            way()
            if number >= 2:
                times.append((time.process_time() - begin) * 1e3)
    return figures.row(case)


HEADER = (
    "| model | head | ms per image | plain NumPy, ms | ratio | inference, ms | share of inference |\n"
    "|---|---|---:|---:|---:|---:|---:|"
)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.heads", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", default="", help="part of the name of a model or head")
    asked = parser.parse_args()
    cv2.setNumThreads(1)
    version = OpenVino(concurrency=1).settings["version"]
    print(f"{datetime.now(UTC):%Y-%m-%d}, {processor()}, OpenVINO {version}, one thread, {asked.rounds} rounds\n")
    print(HEADER)
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            if asked.only.lower() in f"{case.name} {case.head}".lower():
                print(measured(case, rounds=asked.rounds, data=asked.data, folder=Path(folder)), flush=True)


if __name__ == "__main__":
    main()
