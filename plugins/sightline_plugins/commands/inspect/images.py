"""Draw what the steps made of a frame: one image for each step, and the inputs of networks as they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.graph.outputs import Outputs, output_error
from sightline_plugins.opencv import cv2

Image = npt.NDArray[np.uint8]
KEPT_RGB, SUPPRESSED_RGB, FAINT_RGB, OBJECT_RGB = (60, 200, 80), (255, 140, 0), (150, 150, 150), (70, 160, 255)
_LEAST_WIDTH = 960


def write_images(
    folder: Path, plain: Mapping[str, Any], images: Mapping[str, Image], *, overwrite: bool = False
) -> list[Path]:
    """Write the images of an inspection into a folder, and `inspection.json`; return the files.

    Raises OutputError, also where somebody else's file stands, unless `overwrite`.
    """
    files = {name: _png(image) for name, image in _drawn(plain, images).items()}
    files["inspection.json"] = (json.dumps(plain, indent=2) + "\n").encode()
    outputs = Outputs(folder)
    outputs.may_overwrite = overwrite
    written = [outputs.path(name) for name in files]
    for path, data in zip(written, files.values(), strict=True):
        try:
            with outputs.open_binary(path) as file:
                file.write(data)
        except OSError as error:
            raise output_error(path, error, doing="write") from error
    return written


def _png(image: Image) -> bytes:
    return cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1].tobytes()


def _drawn(plain: Mapping[str, Any], images: Mapping[str, Image]) -> dict[str, Image]:
    """Return the images by the names of their files, in the order of the steps."""
    frame = images.get(plain["image"] or "")
    made: dict[str, Image] = {} if frame is None else {"00-frame.png": frame}
    for number, step in enumerate(plain["steps"], start=1):
        name = f"{number:02d}-{step['id']}"
        for place, target in enumerate(step["targets"]):
            part = "" if len(step["targets"]) == 1 else f"-{place}"
            if target["input"] in images:
                made[f"{name}-input{part}.png"] = images[target["input"]]
            if frame is not None and target["boxes"]:
                made[f"{name}-boxes{part}.png"] = _with_boxes(frame, target["boxes"])
        if frame is not None and step["after"]:
            made[f"{name}-objects.png"] = _with_objects(frame, step["after"])
    return made


def _with_boxes(frame: Image, boxes: list[dict[str, Any]]) -> Image:
    """The faint ones first, so that what became an object is on top."""
    canvas = _Canvas(frame)
    for one in sorted(boxes, key=lambda box: (box["kept"], not box["survives"], box["confidence"])):
        color = KEPT_RGB if one["kept"] else FAINT_RGB if one["survives"] else SUPPRESSED_RGB
        canvas.box(one["box"], f"{one['label']} {one['confidence']:.2f}" if one["kept"] else "", color)
    return canvas.image


def _with_objects(frame: Image, objects: list[dict[str, Any]]) -> Image:
    canvas = _Canvas(frame)
    for one in objects:
        track = "" if one["track_id"] is None else f" #{one['track_id']}"
        canvas.box(one["box"], f"{one['label']}{track} {one['confidence']:.2f}", OBJECT_RGB)
    return canvas.image


class _Canvas:
    """A copy of a frame, enlarged when it is small so that texts can be read."""

    def __init__(self, frame: Image) -> None:
        self._scale = max(1, -(-_LEAST_WIDTH // frame.shape[1]))
        self.image: Image = np.ascontiguousarray(
            cv2.resize(frame, None, fx=self._scale, fy=self._scale, interpolation=cv2.INTER_LINEAR), np.uint8
        )

    def box(self, xyxy: list[float], text: str, color: tuple[int, int, int]) -> None:
        """Draw a box in pixels of the frame, with a text above it."""
        left, top, right, bottom = (round(value * self._scale) for value in xyxy)
        cv2.rectangle(self.image, (left, top), (right, bottom), color, 2)
        if text:
            at = (left, max(top - 5, 12))
            cv2.putText(self.image, text, at, cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 0, 0), 3, cv2.LINE_AA)
            cv2.putText(self.image, text, at, cv2.FONT_HERSHEY_SIMPLEX, 0.5, color, 1, cv2.LINE_AA)
