"""Code blocks of the documentation, and a folder in which they find what they name."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from sightline import Pipeline
from sightline_plugins import Video
from tests.conftest import REPOSITORY
from tests.unit.infer import tiny

PAGES = (
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
)
FRAMES = 30
LABELS = ("person", "bicycle", "car", "van", "truck", "bus")
SIDE, CELLS = 64, 84
SHAPES: dict[str, tuple[tuple[int, int], dict[str, list[int | str]]]] = {
    "parts": ((64, 64), {"map": [1, 4, 64, 64]}),
    "joints": ((192, 256), {"simcc_x": [1, 17, 384], "simcc_y": [1, 17, 512]}),
    "hands": ((256, 256), {"maps": [1, 6, 64, 64]}),
    "osnet": ((128, 256), {"vector": [1, 512]}),
    "plates": ((96, 32), {"text": [1, 24, 7]}),
    "vehicle": ((64, 64), {"kind": [1, 4]}),
    "depth": ((256, 256), {"depth": [1, 1, 256, 256]}),
}
"""Models that pages name: the size of the input, and the outputs."""
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its page, the line of its first line, and its text."""

    page: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"


def blocks(language: str) -> list[Block]:
    """All blocks of a language, in the order of the pages."""
    return [block for page in PAGES for block in _of_page(page, language)]


def _of_page(page: Path, language: str) -> Iterator[Block]:
    text = page.read_text()
    for match in _BLOCK.finditer(text):
        if match["language"] == language:
            yield Block(page, text[: match.start()].count("\n") + 2, match["text"])


def lay_out(folder: Path) -> Path:
    """A folder with short copies of the sample clips, and models that find nothing where pages name models."""
    clips, models = folder / "sample_videos", folder / "models"
    clips.mkdir()
    models.mkdir()
    for clip in (REPOSITORY / "sample_videos").glob("*.mp4"):
        copy = Video(path=clip.name, preset="ultrafast")
        Pipeline(sources={"clip": clip}, steps=[copy], outputs=clips).run(frames=FRAMES)
        recorded = clip.with_suffix(".mot.txt").read_text().splitlines(keepends=True)
        kept = [row for row in recorded if int(row.partition(",")[0]) <= FRAMES]
        (clips / f"{clip.stem}.mot.txt").write_text("".join(kept))
    _write_blind_detector(models / "street.onnx").with_suffix(".yaml").write_text(
        "head: yolov8\nlabels: [person, bicycle, car, van, truck, bus]\n"
    )
    for name, (size_wh, outputs) in SHAPES.items():
        inputs: dict[str, list[int | str]] = {"in": [1, 3, size_wh[1], size_wh[0]]}
        tiny.write_shapes(models / f"{name}.onnx", inputs=inputs, outputs=outputs)
    stack: dict[str, list[int | str]] = {"clip": [1, 3, 16, 112, 112]}
    tiny.write_shapes(folder / "actions.onnx", inputs=stack, outputs={"scores": [1, 4]})
    tiny.write_shapes(folder / "FastestDet.onnx", inputs={"in": [1, 3, 352, 352]}, outputs={"map": [1, 85, 22, 22]})
    _write_own(folder, clips / "street.mp4")
    Pipeline(sources={"gate": {"pattern": "bars", "frames": 2}}, outputs=folder).run(record="run.slr")
    (folder / "cameras.yaml").write_text("yard: {pattern: counter, frames: 5}\n")
    (folder / "coco80.names").write_text("".join(f"class {number}\n" for number in range(80)))
    return folder


def _write_own(folder: Path, clip: Path) -> None:
    """Write what pages call `my...`: a clip, an image, a folder of images, a model without labels, and its labels."""
    shutil.copy(clip, folder / "my.mp4")
    still = np.full((90, 160, 3), 90, np.uint8)
    (folder / "my_images").mkdir()
    for name in ("my.jpg", "my_images/1.jpg", "my_images/2.jpg"):
        cv2.imwrite(str(folder / name), still)
    _write_blind_detector(folder / "my_model.onnx")
    (folder / "my_labels.txt").write_text("".join(f"{label}\n" for label in LABELS))


def _write_blind_detector(path: Path) -> Path:
    """A model with YOLOv8's outputs that looks at its input and finds nothing."""
    nothing = np.zeros((1, 4 + len(LABELS), CELLS), np.float32)
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Mul", ["mean", "nothing"], ["output0"]),
    ]
    graph = helper.make_graph(
        nodes,
        "blind",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("output0", TensorProto.FLOAT, list(nothing.shape))],
        [numpy_helper.from_array(nothing, "nothing")],
    )
    return tiny.save(graph, path)
