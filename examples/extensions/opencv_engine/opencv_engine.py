"""An engine of your own: OpenCV's DNN module computes ONNX files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from sightline_plugins.engines.kinds import EngineKind
from sightline_plugins.engines.protocol import Array

if TYPE_CHECKING:
    from sightline_plugins.engines.function_library import Function, FunctionLibrary


def load(content: bytes) -> Function:
    """Return a function that computes the ONNX file with a network of its own."""
    import cv2

    network = cv2.dnn.readNetFromONNX(np.frombuffer(content, np.uint8))
    outputs = network.getUnconnectedOutLayersNames()

    def compute(inputs: Mapping[str, Array]) -> list[Array]:
        for name, array in inputs.items():
            network.setInput(array, name)
        return list(network.forward(outputs))

    return compute


def library(concurrency: int, device: str) -> FunctionLibrary:
    """Return the library; OpenCV is imported here, not when elements are described."""
    del device
    import cv2

    from sightline_plugins.engines.function_library import FunctionLibrary

    return FunctionLibrary("opencv", version=cv2.__version__, load=load, concurrency=concurrency)


OPENCV = EngineKind("opencv", module="cv2", install="opencv-python", library=library)
