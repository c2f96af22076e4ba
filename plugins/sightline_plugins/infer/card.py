"""Model cards and export metadata: what is written beside a model and inside its file about how to use it.

A card is a YAML file beside the model (`street.yaml` for `street.onnx`):

```yaml
task: detect
head: yolox                      # default: recognised from the outputs
head_options: {}                 # settings of the head, if it has any
labels: [car, van, person]       # or a file with one name a line, relative to the card
attribute: color                 # classifiers: name of the attribute that objects get
attributes: {color: [red, ...]}  # classifiers with several outputs: labels of each, by attribute
keypoints: [nose, left_eye, ...] # names of the keypoints of a pose, in order
skeleton: [[0, 1], [0, 2]]       # pairs of keypoints that a line connects, by number from 0
input:
  size: [416, 416]               # width, height: only for models that take several sizes
  color: bgr                     # channel order: rgb | bgr | gray
  fit: letterbox                 # letterbox | stretch | expand | cover | height | native
  align: top_left                # center | top_left, for letterbox
  resize: bilinear               # bilinear | area | nearest | antialias
  convert: network               # network | image: where colours are converted
  pad: 114                       # level of the padding, before mean and scale
  mean: 0                        # y = (x - mean) / scale, one value or one per channel
  scale: 1
  frames: 16                     # action recognition: frames in one input, where the model leaves it open
  stride: 2                      # and how many frames lie from one to the next
confidence: 0.3
class_confidence: {person: 0.5}  # other values for some of the labels
nms: {method: hard, iou: 0.45, class_agnostic: false, max_detections: 300}   # method: hard | soft | fusion | none
trained_on: COCO 2017            # the data, so that a reader can tell where the model knows its way
made_for: [street.mp4]           # only for a model that is useless elsewhere: the names of the files it is for
licence: Apache-2.0
source: where the model comes from
```

Every key is optional; what is left out comes from the ONNX file and from the defaults of the head's family. Exporters
write metadata into the file under the keys that Ultralytics introduced: `names`, `imgsz`, `task` and `kpt_shape`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field

from sightline.config import InvalidConfiguration, read_document
from sightline.errors import ModelError
from sightline.graph.described import Described
from sightline.graph.fields import Fraction, is_there
from sightline_plugins.infer.fields import (
    Align,
    AttributeLabels,
    AttributeName,
    ChannelOrder,
    Convert,
    Crop,
    Edge,
    Fit,
    FrameCount,
    Levels,
    Means,
    Multiple,
    NmsFields,
    PixelCount,
    Resize,
    Scales,
)

MAX_BYTES = 1_000_000
_MAX_CHARACTERS = 1_000_000
_QUANTIZED = ".int8"
_NUMBERED = re.compile(r"(\d{1,6})[\s,:]\s*(\S.*)")


@dataclass(frozen=True, slots=True)
class ExportMetadata:
    """What the metadata of a file sets; empty or None where it sets nothing.

    `size_wh` is the size of the exported input, `usual` the exporter's own pre-processing where it differs from that of
    the head's family, by the names of `Preprocessing`'s fields, and `head_options` are settings of the head.
    """

    labels: tuple[str, ...] = ()
    size_wh: tuple[int, int] | None = None
    task: str | None = None
    usual: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    head_options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


_ULTRALYTICS_CLASSIFY: Mapping[str, Any] = MappingProxyType(
    {"fit": "cover", "crop": 1.0, "resize": "antialias", "color": "rgb", "mean": (0.0,), "scale": (255.0,)}
)
"""Resize the shorter side, crop the centre, scale to 0..1 (Ultralytics, `data/augment.py`: classify_transforms)."""


def read_metadata(metadata: Mapping[str, str]) -> ExportMetadata:
    """Return what can be read; entries in another form are ignored."""
    task = metadata.get("task", "").strip()
    is_classifier = task == "classify" and metadata.get("author") == "Ultralytics"
    return ExportMetadata(
        labels=_labels(_literal(metadata.get("names", ""))),
        size_wh=_size(_literal(metadata.get("imgsz", ""))),
        task=task or None,
        usual=_ULTRALYTICS_CLASSIFY if is_classifier else MappingProxyType({}),
        head_options=_keypoints(_literal(metadata.get("kpt_shape", ""))),
    )


def _literal(text: str) -> object:
    """Return the value of a Python literal, without running anything; None for other text."""
    if not text or len(text) > _MAX_CHARACTERS:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _labels(names: object) -> tuple[str, ...]:
    """Return names by class number, of a list or of a mapping with the keys 0, 1, 2 and so on."""
    if isinstance(names, list | tuple):
        return tuple(str(name) for name in names)
    if isinstance(names, dict) and set(names) == set(range(len(names))):
        return tuple(str(names[number]) for number in range(len(names)))
    return ()


def _size(imgsz: object) -> tuple[int, int] | None:
    """Return width and height; Ultralytics writes height first, or one number for a square."""
    if isinstance(imgsz, int) and imgsz > 0:
        return imgsz, imgsz
    if isinstance(imgsz, list | tuple) and len(imgsz) == 2 and all(isinstance(n, int) and n > 0 for n in imgsz):
        return imgsz[1], imgsz[0]
    return None


def _keypoints(shape: object) -> Mapping[str, Any]:
    """Return the number of keypoints, and of the values of each: x, y and usually confidence."""
    if not isinstance(shape, list | tuple) or len(shape) != 2 or not all(isinstance(n, int) for n in shape):
        return MappingProxyType({})
    is_known = shape[0] > 0 and shape[1] in (2, 3)
    return MappingProxyType({"keypoints": tuple(shape)} if is_known else {})


class CardInput(Described):
    """How frames become the model's input; None where the card sets nothing."""

    size: tuple[PixelCount, PixelCount] | None = None
    """Width and height of the network's input; needed only where the model leaves them open."""
    layout: Literal["nchw", "nhwc"] | None = None
    """Informative; the engine reads it from the file."""
    dtype: Literal["float32", "float16", "uint8"] | None = None
    """A statement about the file; the engine finds it out by itself."""
    color: ChannelOrder | None = None
    fit: Fit | None = None
    align: Align | None = None
    crop: Crop | None = None
    multiple: Multiple | None = None
    resize: Resize | None = None
    convert: Convert | None = None
    pad: Levels | None = None
    mean: Means | None = None
    scale: Scales | None = None
    frames: FrameCount | None = None
    """Number of frames in one input of an action recognition model; needed only where the model leaves it open."""
    stride: FrameCount | None = None
    """Take every n-th frame of the stream. Default: 1."""


class CardNms(NmsFields):
    """Non-maximum suppression; None where the card sets nothing."""

    iou: Fraction | None = None
    class_agnostic: bool | None = None
    max_detections: Annotated[int, Field(ge=1, le=10_000)] | None = None


class ModelCard(Described):
    """The contents of a model card."""

    task: Literal["detect", "classify", "segment", "pose", "embed", "read"] | None = None
    head: str | None = None
    head_options: Mapping[str, Any] = {}
    labels: tuple[str, ...] | Path | None = None
    attribute: AttributeName | None = None
    attributes: AttributeLabels | None = None
    keypoints: tuple[str, ...] | None = None
    skeleton: tuple[Edge, ...] | None = None
    input: CardInput = CardInput()
    confidence: Fraction | None = None
    class_confidence: Mapping[str, Fraction] = {}
    nms: CardNms = CardNms()
    trained_on: str | None = None
    made_for: tuple[str, ...] = ()
    licence: str | None = None
    source: str | None = None


_MOST_SHOWN = 4


def card_path(model: Path) -> Path:
    """Return the path of a model's card, whether it exists or not.

    The quantised `street.int8.onnx` uses the card of `street.onnx`, unless it has its own.
    """
    own = model.with_suffix(".yaml")
    if own.stem.endswith(_QUANTIZED) and not is_there(own):
        return own.with_name(f"{own.stem.removesuffix(_QUANTIZED)}.yaml")
    return own


def read_card(model: Path | str) -> ModelCard:
    """Return the card beside a model; an empty card when there is none, and for the address of a served model.

    Raises ModelError naming file and key.
    """
    if isinstance(model, str):
        return ModelCard()
    path = card_path(model)
    if not is_there(path):
        return ModelCard()
    try:
        card = read_document(ModelCard, path)
    except InvalidConfiguration as error:
        shown = [str(problem) for problem in error.problems[:_MOST_SHOWN]]
        more = len(error.problems) - len(shown)
        text = "; ".join([*shown, *([f"and {more} more mistakes"] if more else [])])
        raise ModelError(f"model card {text}") from error
    if isinstance(card.labels, Path):
        card = card.model_copy(update={"labels": path.parent / card.labels})
    return card


def read_labels(path: Path) -> tuple[str, ...]:
    """Return class names from a file, one a line, without empty lines at the end. Raises ModelError.

    Where each line starts with its own number (`0,tench`, `0: tench`, `0 tench`), the number is not part of the name.
    """
    lines = [line.strip() for line in _read_text(path).rstrip().splitlines()]
    numbered = [_NUMBERED.match(line) for line in lines]
    if all(found is not None and int(found[1]) == number for number, found in enumerate(numbered)):
        return tuple(found[2] for found in numbered if found is not None)
    return tuple(lines)


def read_alphabet(path: Path) -> tuple[str, ...]:
    """Return symbols from a file, one a line; a line with a space is a space. Raises ModelError."""
    return tuple(_read_text(path).removesuffix("\n").split("\n"))


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ModelError(f"labels file {path} is larger than {MAX_BYTES} bytes: one class name a line is expected")
        return path.read_text("utf-8")
    except OSError as error:
        raise ModelError(f"labels file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"labels file {path} is not UTF-8 text") from error
