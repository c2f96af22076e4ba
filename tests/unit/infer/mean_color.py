"""Networks small enough to know every answer of: they give the mean red, green and blue of what they see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

from sightline.media import Batch, Objects, Origin, Stream, Surface
from sightline.media.convert import surface_from_rgb
from sightline.media.frame import Frame
from sightline.media.surface import PixelFormat
from tests.unit.infer.tiny import save

SIDE = 8
STEPS = 8
COLORS = ("red", "green", "blue")
PLAIN = {"fit": "stretch", "resize": "bilinear", "color": "rgb", "mean": 0, "scale": 255}
"""Pre-processing under which the networks see levels from 0 to 1."""
RED, GREEN, BLUE, GREY = (255, 0, 0), (0, 255, 0), (0, 0, 255), (128, 128, 128)


def write_mean_color(
    path: Path,
    *,
    outputs: Sequence[str] = ("scores",),
    ending: str | None = None,
    gain: float = 1.0,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """A model whose outputs are each (1, 3): the mean levels, times `gain`, through the operator `ending`."""
    last = "raw" if ending is None else "ended"
    nodes = [
        helper.make_node("GlobalAveragePool", ["images"], ["means"]),
        helper.make_node("Flatten", ["means"], ["flat"], axis=1),
        helper.make_node("Mul", ["flat", "gain"], ["raw"]),
        *([] if ending is None else [helper.make_node(ending, ["raw"], ["ended"])]),
        *(helper.make_node("Identity", [last], [name]) for name in outputs),
    ]
    graph = helper.make_graph(
        nodes,
        "mean_color",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in outputs],
        [numpy_helper.from_array(np.array([gain], np.float32), "gain")],
    )
    return save(graph, path, metadata=metadata)


def write_line_reader(path: Path) -> Path:
    """A model for lines of eight cells: (1, 8, 3) probabilities of the blank (red) and two symbols (green, blue)."""
    nodes = [
        helper.make_node("AveragePool", ["images"], ["cells"], kernel_shape=[SIDE, 4], strides=[SIDE, 4]),
        helper.make_node("Reshape", ["cells", "shape"], ["columns"]),
        helper.make_node("Mul", ["columns", "gain"], ["sharp"]),
        helper.make_node("Transpose", ["sharp"], ["steps"], perm=[0, 2, 1]),
        helper.make_node("Softmax", ["steps"], ["text"], axis=2),
    ]
    graph = helper.make_graph(
        nodes,
        "line_reader",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, 4 * STEPS])],
        [helper.make_tensor_value_info("text", TensorProto.FLOAT, [1, STEPS, 3])],
        [
            numpy_helper.from_array(np.array([1, 3, STEPS]), "shape"),
            numpy_helper.from_array(np.array([10], np.float32), "gain"),
        ],
    )
    return save(graph, path)


def plain_surface(color: tuple[int, int, int], *, size_wh: tuple[int, int] = (64, 48)) -> Surface:
    """An image of one color."""
    return surface_from_rgb(np.full((size_wh[1], size_wh[0], 3), color, np.uint8), pixel_format=PixelFormat.RGB24)


def frames(*surfaces: Surface, fps: int = 10) -> list[Frame]:
    """The images as the frames of one stream."""
    stream = Stream("gate")
    return [Frame(stream, index, index * 1_000_000_000 // fps, surface) for index, surface in enumerate(surfaces)]


def tracked(
    batch: Batch, *boxes: Sequence[float], tracks: Sequence[int] | None = None, confidence: float = 0.9
) -> Batch:
    """The batch of one frame with cars in these boxes."""
    objects = Objects.from_columns(
        frame=[0] * len(boxes),
        xyxy=np.array(boxes, np.float32),
        confidence=[confidence] * len(boxes),
        class_id=[0] * len(boxes),
        track_id=None if tracks is None else np.array(tracks),
        source=Origin("detect-1", ("car",)),
    )
    return batch.with_objects(objects)


def striped(*colors: tuple[int, int, int], cell_wh: tuple[int, int] = (8, 16)) -> npt.NDArray[np.uint8]:
    """An RGB image of upright stripes."""
    width, height = cell_wh
    return np.concatenate([np.full((height, width, 3), color, np.uint8) for color in colors], axis=1)
