"""What exporters write into an ONNX file: the keys that Ultralytics made usual.

These are `names`, `imgsz`, `task` and `kpt_shape`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

MAX_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class ExportFacts:
    """What the metadata says; empty or None where it says nothing. `size_wh` is the input that was exported for.

    `usual` is the exporter's own pre-processing where it is another than that of the head's family, by the names of
    `Preprocessing`'s fields. `head_options` are settings of the head, for a head that has them.
    """

    labels: tuple[str, ...] = ()
    size_wh: tuple[int, int] | None = None
    task: str | None = None
    usual: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    head_options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


_ULTRALYTICS_CLASSIFY: Mapping[str, Any] = MappingProxyType(
    {"fit": "cover", "crop": 1.0, "resize": "antialias", "color": "rgb", "mean": (0.0,), "scale": (255.0,)}
)
"""Shorter side to the input's, its middle, 0..1 (ultralytics/ultralytics, `data/augment.py`: classify_transforms)."""


def read_metadata(metadata: Mapping[str, str]) -> ExportFacts:
    """The facts that can be read; entries in another form are passed over (they are notes, not orders)."""
    task = metadata.get("task", "").strip()
    is_classifier = task == "classify" and metadata.get("author") == "Ultralytics"
    return ExportFacts(
        labels=_labels(_literal(metadata.get("names", ""))),
        size_wh=_size(_literal(metadata.get("imgsz", ""))),
        task=task or None,
        usual=_ULTRALYTICS_CLASSIFY if is_classifier else MappingProxyType({}),
        head_options=_keypoints(_literal(metadata.get("kpt_shape", ""))),
    )


def _literal(text: str) -> object:
    """A Python literal, read without running anything; None when it is none."""
    if not text or len(text) > MAX_CHARACTERS:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _labels(names: object) -> tuple[str, ...]:
    """Names by class number: a list, or a mapping whose keys are 0, 1, 2 and so on."""
    if isinstance(names, list | tuple):
        return tuple(str(name) for name in names)
    if isinstance(names, dict) and set(names) == set(range(len(names))):
        return tuple(str(names[number]) for number in range(len(names)))
    return ()


def _size(imgsz: object) -> tuple[int, int] | None:
    """Width and height; Ultralytics writes height first, or one number for a square."""
    if isinstance(imgsz, int) and imgsz > 0:
        return imgsz, imgsz
    if isinstance(imgsz, list | tuple) and len(imgsz) == 2 and all(isinstance(n, int) and n > 0 for n in imgsz):
        return imgsz[1], imgsz[0]
    return None


def _keypoints(shape: object) -> Mapping[str, Any]:
    """Number of keypoints and values of each: x and y, and mostly confidence."""
    if not isinstance(shape, list | tuple) or len(shape) != 2 or not all(isinstance(n, int) for n in shape):
        return MappingProxyType({})
    is_known = shape[0] > 0 and shape[1] in (2, 3)
    return MappingProxyType({"keypoints": tuple(shape)} if is_known else {})
