"""Exports trained weights as ONNX with the metadata that Ultralytics' exporter embeds."""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from torch import nn

from tools.train.augment import NETWORK_WH
from tools.train.detector import STRIDES, Deployed, Detector
from tools.world.scene import LABELS

OPSET = 17


def export_detector(*, weights: Path, model: Path) -> None:
    """Write the detector: input `images`, output `output0`, dynamic batch."""
    detector = Detector(classes=len(LABELS))
    detector.load_state_dict(torch.load(weights, weights_only=True))
    deployed = Deployed(detector, size_wh=NETWORK_WH).eval()
    width, height = NETWORK_WH
    write_onnx(
        deployed,
        model=model,
        example=torch.zeros(2, 3, height, width),
        outputs=("output0",),
        metadata={
            "description": "Sightline street detector",
            "author": "Sightline",
            "license": "Apache-2.0",
            "task": "detect",
            "batch": "1",
            "stride": str(max(STRIDES)),
            "imgsz": str([height, width]),
            "names": repr(dict(enumerate(LABELS))),
        },
    )


def write_onnx(
    network: nn.Module, *, model: Path, example: torch.Tensor, outputs: tuple[str, ...], metadata: dict[str, str]
) -> None:
    """Write a network with one input `images` and the given outputs, all with a dynamic batch."""
    dynamic = {name: {0: "batch"} for name in ("images", *outputs)}
    torch.onnx.export(
        network,
        (example,),
        str(model),
        input_names=["images"],
        output_names=list(outputs),
        dynamic_axes=dynamic,
        opset_version=OPSET,
        dynamo=False,
    )
    graph = onnx.load(model)
    with torch.no_grad():
        answers = network(example)
    for value, answer in zip(graph.graph.output, answers if len(outputs) > 1 else (answers,), strict=True):
        for dim, size in zip(value.type.tensor_type.shape.dim[1:], answer.shape[1:], strict=True):
            dim.dim_value = int(size)
    onnx.helper.set_model_props(graph, metadata)
    graph.producer_name, graph.producer_version = "sightline tools.train", ""
    onnx.checker.check_model(graph, full_check=True)
    onnx.save(graph, model)


def parameters(model: Path) -> int:
    """How many weights an ONNX file holds."""
    return sum(
        int(torch.tensor(list(tensor.dims)).prod()) for tensor in onnx.load(model).graph.initializer if tensor.dims
    )
