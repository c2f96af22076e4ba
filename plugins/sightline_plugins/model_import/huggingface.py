"""Read a folder of Hugging Face with an exported ONNX model: `config.json`, `preprocessor_config.json`, `README.md`.

The meaning of each key is that of the image processors of Transformers 4.57 (`image_processing_*.py`): an image is
resized, cut, multiplied by `rescale_factor` (less 1 with `rescale_offset`), and then (x - image_mean) / image_std.
Images are resized by Pillow or torchvision there, both with antialiasing. What has no counterpart is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightline.errors import ModelError
from sightline_plugins.infer.facts import read_facts
from sightline_plugins.model_import.package import ModelPackage, name_of, own_card
from sightline_plugins.store import Origin

CONFIGURATION = "config.json"
PROCESSOR = "preprocessor_config.json"
_README = "README.md"
_MAX_BYTES = 10_000_000
_PLACES = (".", "onnx")
_MODEL_FILE = "model.onnx"
_MASK = "pixel_mask"
_MARKS = ("model_type", "architectures", "id2label", "transformers_version")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SNAPSHOT = re.compile(r"[0-9a-f]{40}")
_NO_NAME = re.compile(r"LABEL_\d+")
_OTHER_WEIGHTS = (".safetensors", ".bin", ".h5", ".msgpack", ".pt")

_TASKS = {
    "ForImageClassification": "classify",
    "ForImageClassificationWithTeacher": "classify",
    "ForObjectDetection": "detect",
    "ForSemanticSegmentation": "segment",
    "ForPoseEstimation": "pose",
    "ForVideoClassification": "classify",
}
"""The step by the end of the architecture's name."""
_SOFTMAX_SETS = ("detr", "yolos", "table-transformer")
"""Detectors whose last class is "no object"; the others of these have a score for each class by itself."""
_SIGMOID_SETS = ("conditional_detr", "d_fine", "dab-detr", "deformable_detr", "rt_detr", "rt_detr_v2")
_MULTI_LABEL = "multi_label_classification"

_NEAREST, _BILINEAR, _BOX = 0, 2, 4
_RESAMPLING = {_NEAREST: "nearest", _BILINEAR: "antialias", _BOX: "area"}
_FILTERS = {1: "Lanczos", 3: "bicubic", 5: "Hamming"}
_CROPS = {"ConvNext": 224 / 256, "Levit": 224 / 256}
"""Processors that resize to more than `size` and cut to it: the part that stays, by the beginning of their names."""
_CONVNEXT_STRETCHES = 384
_DIGITS = 6
_FEW = 8
_SILENT = frozenset(
    (
        *("image_processor_type", "feature_extractor_type", "processor_class", "_valid_processor_keys", "data_format"),
        *("input_data_format", "device", "return_tensors", "default_to_square", "do_convert_rgb", "format"),
        *("do_convert_annotations", "disable_grouping", "do_reduce_labels", "reduce_labels", "auto_map"),
    )
)
"""Names of classes, and keys about training and about the form of tensors."""
_TAKEN = frozenset(
    (
        *("do_resize", "size", "max_size", "resample", "do_center_crop", "crop_size", "crop_pct", "do_rescale"),
        *("rescale_factor", "rescale_offset", "offset", "do_normalize", "image_mean", "image_std", "include_top"),
        *("do_flip_channel_order", "do_pad"),
    )
)


@dataclass(slots=True)
class _Processor:
    """The processor that is read, and what could not be taken over."""

    path: Path
    settings: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The name of its class."""
        return str(self.settings.get("image_processor_type") or self.settings.get("feature_extractor_type") or "")

    def flag(self, key: str, *, default: bool = False) -> bool:
        value = self.settings.get(key)
        return default if value is None else bool(value)

    def number(self, key: str, default: float) -> float:
        value = self.settings.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, "a number is expected")
        return float(value)

    def levels(self, key: str, default: float) -> list[float]:
        """Return one value, or one for each channel."""
        value = self.settings.get(key)
        values = value if isinstance(value, list) else [default if value is None else value]
        if len(values) not in (1, 3) or not all(_is_number(one) for one in values):
            raise self.error(key, "one number or three are expected")
        return [float(one) for one in values]

    def size(self, key: str) -> Mapping[str, int]:
        """Return a size with the names that Transformers gives its sides; empty where none is given."""
        value = self.settings.get(key)
        if value is None:
            return {}
        if isinstance(value, int) and not isinstance(value, bool):
            has_longest = key == "size" and "max_size" in self.settings
            if key == "size" and (has_longest or self.flag("do_center_crop") or self.kind.startswith(tuple(_CROPS))):
                longest = {"longest_edge": self.settings["max_size"]} if has_longest else {}
                return {"shortest_edge": value, **longest}
            return {"height": value, "width": value}
        if isinstance(value, list) and len(value) == 2:
            value = {"height": value[0], "width": value[1]}
        if isinstance(value, dict):
            value = {name: side for name, side in value.items() if side is not None}
        if not isinstance(value, dict) or not all(isinstance(side, int) and side > 0 for side in value.values()):
            raise self.error(key, "sides in pixels are expected, such as {height: 224, width: 224}")
        return value

    def error(self, key: str, message: str) -> ModelError:
        return ModelError(f"{self.path}: {key}: {self.settings.get(key)!r}: {message}")


def is_huggingface(folder: Path) -> bool:
    """Whether a folder has the configuration of a model of Transformers, be it right or wrong."""
    if (folder / PROCESSOR).is_file() and (folder / CONFIGURATION).is_file():
        return True
    with suppress(ModelError):
        return any(mark in _json(folder / CONFIGURATION) for mark in _MARKS)
    return False


def read_huggingface(folder: Path) -> ModelPackage:
    """Return the model of a folder; a card beside the ONNX file goes before what the configurations say.

    Raises ModelError for files that cannot be read, values that are wrong, and a folder without an ONNX file.
    """
    config = _json(folder / CONFIGURATION)
    model, variants = _model(folder)
    _check_inputs(model)
    task, architecture = _task(config)
    card: dict[str, Any] = {} if task is None else {"task": task}
    head = _head(config, task)
    if head is not None:
        card["head"] = head
    labels, notes = _labels(folder / CONFIGURATION, config)
    if labels and task in (None, "classify", "detect", "segment"):
        card["labels"] = labels
    processor = _Processor(folder / PROCESSOR, _json(folder / PROCESSOR) if (folder / PROCESSOR).is_file() else {})
    if processor.settings:
        card["input"] = _input(processor)
    else:
        processor.notes.append(f"there is no {PROCESSOR}: the usual pre-processing of the head is taken")
    about = _readme(folder)
    card |= {key: about[key] for key in ("licence", "trained_on") if about.get(key)}
    name = _hub_name(folder, config)
    card["source"] = f"a model of Hugging Face ({name or architecture or config.get('model_type', 'of no known type')})"
    notes += [*processor.notes, *_unknown(processor)]
    if variants:
        notes.append(f"{', '.join(variants)}: {model.name} is what runs (`precision` in the pipeline sets another one)")
    given = own_card(model)
    place = str(folder.resolve())
    called = name_of(name.rpartition("/")[2] if name else folder.resolve().name)
    return ModelPackage(model, {**card, **given}, Origin("huggingface", place), called, not_taken_over=tuple(notes))


def _json(path: Path) -> dict[str, Any]:
    """Return the object that a file holds. Raises ModelError."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ModelError(f"{path} is larger than {_MAX_BYTES} bytes: it is no configuration of a model")
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path} does not hold an object of JSON")
    return found


def _model(folder: Path) -> tuple[Path, list[str]]:
    """Return the ONNX file, and the names of other forms of the same model (`model_fp16.onnx`)."""
    for place in _PLACES:
        found = sorted((folder / place).glob("*.onnx"))
        chosen = next((path for path in found if path.name == _MODEL_FILE), None)
        if chosen is None and len(found) == 1:
            chosen = found[0]
        if chosen is not None:
            return chosen, [path.name for path in found if path != chosen]
        if found:
            names = ", ".join(str(path) for path in found)
            raise ModelError(f"{folder} has several models and none called {_MODEL_FILE}: give one of {names}")
    weights = next((path.name for path in sorted(folder.iterdir()) if path.suffix in _OTHER_WEIGHTS), None)
    has = "" if weights is None else f"; {weights} is for PyTorch and others"
    raise ModelError(
        f"{folder} has no ONNX file (model.onnx or onnx/model.onnx){has}: export it with `optimum-cli export onnx "
        f"--model {folder} FOLDER`"
    )


def _check_inputs(model: Path) -> None:
    """Raise ModelError for a model that takes, as an input, which part of an image is padding."""
    if any(spec.name == _MASK for spec in read_facts(model).inputs):
        raise ModelError(
            f"model {str(model)!r}: takes {_MASK} beside the image, which is not supported: export it without (a model "
            "that calls its own with ones), or take one that has none, such as YOLOS, RT-DETR or D-FINE"
        )


def _task(config: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the step that the architecture is for, as far as it is known, and the architecture."""
    named = config.get("architectures")
    architecture = str(named[0]) if isinstance(named, list) and named else ""
    task = next((task for end, task in _TASKS.items() if architecture.endswith(end)), None)
    return task, architecture


def _head(config: Mapping[str, Any], task: str | None) -> str | None:
    kind = str(config.get("model_type", ""))
    if task == "classify":
        return "tags" if config.get("problem_type") == _MULTI_LABEL else "classify"
    if task == "detect" and kind in _SOFTMAX_SETS:
        return "detr"
    return "rt_detr" if task == "detect" and kind in _SIGMOID_SETS else None


def _labels(path: Path, config: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names by class number, and what is to be reported of them."""
    given = config.get("id2label")
    if given is None:
        return [], []
    try:
        names = {int(number): str(name) for number, name in given.items()}
    except (AttributeError, ValueError):
        raise ModelError(f"{path}: id2label: names by class number are expected, such as {{'0': 'cat'}}") from None
    if not names:
        return [], []
    if min(names) < 0 or max(names) >= 10 * len(names):
        raise ModelError(f"{path}: id2label has {len(names)} names, for classes {min(names)} to {max(names)}")
    if all(_NO_NAME.fullmatch(name) for name in names.values()):
        few = ", ".join(list(names.values())[:2])
        return [], [f"id2label: {few}, ... are no names: give them with --set labels=FILE"]
    missing = [number for number in range(max(names) + 1) if number not in names]
    few = ", ".join(map(str, missing[:_FEW]))
    notes = [f"id2label leaves out {len(missing)} classes ({few}): they are called class-N"] if missing else []
    return [names.get(number, f"class-{number}") for number in range(max(names) + 1)], notes


def _input(processor: _Processor) -> dict[str, Any]:
    """Return how images become the input."""
    found: dict[str, Any] = {"color": "bgr" if processor.flag("do_flip_channel_order") else "rgb"}
    found |= _placement(processor)
    found |= _levels(processor)
    return found


def _placement(processor: _Processor) -> dict[str, Any]:
    """Return size and fit."""
    if not processor.flag("do_resize", default=True):
        processor.notes.append("do_resize: false: images are resized to what the graph takes")
        return {}
    found: dict[str, Any] = {"resize": _resampling(processor)}
    size = processor.size("size")
    crop = processor.size("crop_size") if processor.flag("do_center_crop") else {}
    width, height, shortest = size.get("width"), size.get("height"), size.get("shortest_edge")
    if crop and (shortest or (width and height)):
        return found | _cut(processor, crop, shortest or min(width or 1, height or 1), is_stretched=shortest is None)
    if width and height:
        return found | {"size": [width, height], "fit": "stretch"}
    if shortest and "longest_edge" in size:
        return found | _bounded(processor, shortest, size["longest_edge"])
    if shortest:
        return found | _shortest(processor, shortest)
    given = processor.settings.get("size")
    processor.notes.append(f"size: {given!r}: has no counterpart here; the graph's size is taken")
    return found


def _resampling(processor: _Processor) -> str:
    number = int(processor.number("resample", _BILINEAR))
    if number in _FILTERS:
        name = _FILTERS[number]
        processor.notes.append(f"resample: {number} ({name}): images are resized bilinearly with antialiasing here")
    return _RESAMPLING.get(number, "antialias")


def _cut(processor: _Processor, crop: Mapping[str, int], side: int, *, is_stretched: bool) -> dict[str, Any]:
    """Return what it is to resize the shorter side, and to cut out the middle."""
    size = crop.get("width", crop.get("shortest_edge", 0)), crop.get("height", crop.get("shortest_edge", 0))
    if 0 in size:
        raise processor.error("crop_size", "height and width are expected")
    if is_stretched and size != (side, side):
        processor.notes.append("size with height and width, and crop_size: images keep their shape before they are cut")
    if min(size) > side:
        processor.notes.append(f"crop_size is larger than size ({side}): images fill it here, and are not padded")
    if is_stretched and size == (side, side):
        return {"size": list(size), "fit": "stretch"}
    return {"size": list(size), "fit": "cover", "crop": _rounded(min(1.0, min(size) / side))}


def _bounded(processor: _Processor, shortest: int, longest: int) -> dict[str, Any]:
    """Return what comes near to sides of at least and at most so many pixels: the input of a wide frame."""
    mean = [round(level) for level in _levels(processor)["mean"]]
    processor.notes.append(
        f"size: {{shortest_edge: {shortest}, longest_edge: {longest}}}: each image has a size of its own there; here "
        f"all are fitted into {longest} x {shortest} and padded with the mean (`--set input={{size: [W, H]}}` sets "
        "another size)"
    )
    return {"size": [longest, shortest], "fit": "letterbox", "align": "top_left", "pad": mean}


def _shortest(processor: _Processor, side: int) -> dict[str, Any]:
    """Return what a shorter side alone means, which depends on the processor."""
    part = next((part for kind, part in _CROPS.items() if processor.kind.startswith(kind)), None)
    if processor.kind.startswith("ConvNext") and side >= _CONVNEXT_STRETCHES:
        return {"size": [side, side], "fit": "stretch"}
    if part is not None:
        return {"size": [side, side], "fit": "cover", "crop": _rounded(processor.number("crop_pct", part))}
    processor.notes.append(f"size: {{shortest_edge: {side}}} without a crop: the middle of images is taken here")
    return {"size": [side, side], "fit": "cover", "crop": 1.0}


def _levels(processor: _Processor) -> dict[str, list[float]]:
    """Return mean and scale of levels: y = (x * factor - offset - mean) / std is (x - mean') / scale'."""
    factor = processor.number("rescale_factor", 1 / 255) if processor.flag("do_rescale", default=True) else 1.0
    if factor <= 0:
        raise processor.error("rescale_factor", "must be above 0")
    is_offset = processor.flag("rescale_offset") or processor.flag("offset")
    mean, std = [0.0], [1.0]
    if processor.flag("do_normalize", default="image_mean" in processor.settings):
        mean, std = processor.levels("image_mean", 0.0), processor.levels("image_std", 1.0)
        if min(std) <= 0:
            raise processor.error("image_std", "must be above 0")
        if processor.kind.startswith("EfficientNet") and processor.flag("include_top", default=True):
            std = [one * one for one in std]
    offset = 1.0 if is_offset else 0.0
    return {
        "mean": [_rounded((one + offset) / factor) for one in mean],
        "scale": [_rounded(one / factor) for one in std],
    }


def _unknown(processor: _Processor) -> Iterator[str]:
    for key, value in processor.settings.items():
        if key == "do_pad" and value and processor.settings.get("pad_size"):
            yield "do_pad, pad_size: images are not padded to a size here"
        elif key not in _TAKEN and key not in _SILENT and key != "pad_size" and value not in (None, False):
            yield f"{key}: {json.dumps(value)[:60]}: has no counterpart here"


def _readme(folder: Path) -> dict[str, str]:
    """Return licence and data of the head of the model's page, as far as it can be read."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    path = folder / _README
    with suppress(OSError, UnicodeDecodeError, YAMLError):
        if path.stat().st_size > _MAX_BYTES:
            return {}
        before, mark, rest = path.read_text("utf-8").partition("---\n")
        head, end, _ = rest.partition("\n---")
        found = YAML(typ="safe", pure=True).load(head) if mark and end and not before.strip() else None
        if isinstance(found, dict):
            licence = found.get("license_name") if found.get("license") == "other" else None
            return {"licence": _joined(licence or found.get("license")), "trained_on": _joined(found.get("datasets"))}
    return {}


def _hub_name(folder: Path, config: Mapping[str, Any]) -> str:
    """Return OWNER/NAME on the Hub, as far as it is known: of the configuration, or of the cache's folder."""
    named = str(config.get("_name_or_path", ""))
    if _HUB_NAME.fullmatch(named):
        return named
    place = folder.resolve()
    if _SNAPSHOT.fullmatch(place.name) and place.parents[1].name.startswith("models--"):
        return place.parents[1].name.removeprefix("models--").replace("--", "/", 1)
    return ""


def _joined(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(str(one) for one in value)
    return "" if value is None else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
