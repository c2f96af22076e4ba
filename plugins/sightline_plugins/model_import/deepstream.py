"""Read a configuration of DeepStream's nvinfer, with its ONNX file and labels, into a model card.

The meaning of each key is that of DeepStream 9.1 (gst-nvinfer: `gstnvinfer_property_parser.cpp`, its defaults in
`gstnvinfer_property_parser.h`): input = net-scale-factor * (level - offset), padding of level 0 before that, boxes kept
from `pre-cluster-threshold` on and above `post-cluster-threshold`, overlaps by `nms-iou-threshold`. What belongs into a
pipeline, or has no counterpart here, is reported and not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sightline.errors import ModelError
from sightline_plugins.engines.model_file import KNOWN_SUFFIXES
from sightline_plugins.infer.card import MAX_BYTES, read_labels
from sightline_plugins.model_import.package import ModelPackage, name_of, own_card
from sightline_plugins.store import Origin

PROPERTY, _ALL, _CLASS = "property", "class-attrs-all", "class-attrs-"
_PRE, _POST, _IOU = 0.2, 0.0, 0.3
"""nvinfer's defaults of pre-cluster-threshold, post-cluster-threshold and nms-iou-threshold."""
_TASKS = {"0": "detect", "1": "classify", "2": "segment", "3": "segment"}
_COLORS = {"0": "rgb", "1": "bgr", "2": "gray"}
_FILTERS = {"0": "nearest", "1": "bilinear"}
_CLUSTERINGS = {"0": "groupRectangles", "1": "DBSCAN", "3": "DBSCAN with NMS"}
_NMS, _GROUPS_AND_NMS, _NO_CLUSTERING = "2", "3", "4"
_USUAL_IOU = 0.45
"""Overlap for what is grouped there: also where the outputs are read by a head that suppresses nothing by itself."""
_ENCRYPTED = "tlt-encoded-model"
_OTHER_MODELS = (_ENCRYPTED, "model-file", "uff-file", "custom-network-config")
_ONE = "1"
_BEGINNING = re.compile(rb"^(\xef\xbb\xbf)?(\s*\[property\]|property:)", re.MULTILINE)
_DIGITS = 6

_TAKEN = frozenset(
    (
        *("onnx-file", "labelfile-path", "network-type", "is-classifier", "net-scale-factor", "offsets", "infer-dims"),
        *("input-dims", "model-color-format", "maintain-aspect-ratio", "symmetric-padding", "scaling-filter"),
        *("num-detected-classes", "cluster-mode", "classifier-threshold", "network-input-order", "enable-dbscan"),
    )
)
_COMPUTED = (
    *("batch-size", "network-mode", "model-engine-file", "int8-calib-file", "workspace-size", "gpu-id", "enable-dla"),
    *("use-dla-core", "output-blob-names", "force-implicit-batch-dim", "scaling-compute-hw", "strongly-typed"),
    *("layer-device-precision", "output-io-formats", "auto-inc-mem", "max-gpu-mem-per", "warmup-engine"),
)
"""How it is computed, which is found out for each machine."""
_IN_PIPELINE = {
    "interval": "in the pipeline, `every: {plus}` runs on one frame in {plus} of each stream",
    "process-mode": "in the pipeline, `on: LABEL` runs it on objects",
    "operate-on-gie-id": "in the pipeline, `on: {{from: STEP}}` names the step whose objects it runs on",
    "operate-on-class-ids": "in the pipeline, `on: LABEL` names the objects by label",
    "filter-out-class-ids": "in the pipeline, `classes: [...]` lists the labels to keep",
    "secondary-reinfer-interval": "in the pipeline, `reinfer_interval` is a time",
    "input-object-min-width": "in the pipeline, `on: {{min_size: [width, height]}}` sets it",
    "input-object-min-height": "in the pipeline, `on: {{min_size: [width, height]}}` sets it",
    "classifier-type": "in the pipeline, `attribute` names what a classifier tells",
}
_OF_CLASSES = {
    "topk": "in the pipeline, `max_per_class` and `class_limits` set it",
    **dict.fromkeys(("roi-top-offset", "roi-bottom-offset"), "in the pipeline, `regions` or a zone selects"),
    **dict.fromkeys(
        ("detected-min-w", "detected-min-h", "detected-max-w", "detected-max-h"),
        "in the pipeline, `min_size`, `max_size` and `class_limits` set it",
    ),
    **dict.fromkeys(("border-color", "bg-color"), "in the pipeline, `draw` sets colours"),
}
_NOTHING = ("", "0", "-1")
"""Values that switch something off."""
_IDENTITY = ("gie-unique-id", "classifier-async-mode", "tlt-model-key")
"""Has no meaning outside DeepStream, and needs no word; a key is not repeated."""


@dataclass(slots=True)
class _Reading:
    """A configuration that is read: its sections, and what could not be taken over."""

    path: Path
    sections: Mapping[str, Mapping[str, str]]
    notes: list[str] = field(default_factory=list)

    @property
    def settings(self) -> Mapping[str, str]:
        return self.sections[PROPERTY]

    def number(self, key: str, default: float, *, section: str = PROPERTY) -> float:
        return self.numbers(key, (default,), section=section)[0]

    def numbers(self, key: str, default: tuple[float, ...], *, section: str = PROPERTY) -> tuple[float, ...]:
        text = self.sections.get(section, {}).get(key)
        if text is None:
            return default
        with suppress(ValueError):
            found = tuple(float(part) for part in text.split(";") if part.strip())
            if found:
                return found
        raise self.error(f"[{section}] {key}={text}: numbers are expected, with ; between them")

    def one_of(self, key: str, known: Mapping[str, str], default: str) -> str:
        text = self.settings.get(key, default)
        if text not in known:
            raise self.error(f"[{PROPERTY}] {key}={text}: must be one of {', '.join(known)}")
        return known[text]

    def error(self, message: str) -> ModelError:
        return ModelError(f"{self.path}: {message}")


def is_deepstream(path: Path) -> bool:
    """Whether a file is a configuration of nvinfer: text with a section `property`, be it right or wrong."""
    with suppress(OSError), path.open("rb") as file:
        return _BEGINNING.search(file.read(MAX_BYTES)) is not None
    return False


def read_deepstream(path: Path) -> ModelPackage:
    """Return the model of a configuration; a card beside the ONNX file goes before what the configuration says.

    Raises ModelError for a configuration that cannot be read, a value that is wrong, and a model that is no ONNX file.
    """
    return read_settings(path, _sections(path), kind="deepstream", maker="DeepStream")


def read_settings(
    path: Path, sections: Mapping[str, Mapping[str, str]], *, kind: Literal["deepstream", "tao"], maker: str
) -> ModelPackage:
    """Return the model of settings of nvinfer that a file holds, by section. Raises ModelError as `read_deepstream`."""
    reading = _Reading(path, {PROPERTY: {}, **sections})
    model = _model(reading)
    task = _task(reading)
    labels = _labels(reading, task)
    card = _card(reading, task, labels)
    card["source"] = f"a model of {maker} ({path.name})"
    _note_the_rest(reading)
    name = name_of(model.stem)
    place = str(path.resolve())
    return ModelPackage(
        model, {**card, **own_card(model)}, Origin(kind, place), name, not_taken_over=tuple(reading.notes)
    )


def read_card(
    path: Path, sections: Mapping[str, Mapping[str, str]], *, labels: Sequence[str]
) -> tuple[str | None, dict[str, Any]]:
    """Return the task that settings of nvinfer name, None where they leave it open, and the card without `source`.

    The model need not be there, and `labels` are given. Raises ModelError for a value that is wrong.
    """
    reading = _Reading(path, {PROPERTY: {}, **sections})
    task = _task(reading)
    return task, _card(reading, task, list(labels))


def _card(reading: _Reading, task: str | None, labels: list[str]) -> dict[str, Any]:
    card: dict[str, Any] = {} if task is None else {"task": task}
    if labels:
        card["labels"] = labels
    card["input"] = _input(reading)
    if task in ("detect", "segment") and reading.settings.get("network-type", "0") != "2":
        card |= _boxes(reading, labels)
    elif task == "classify" and reading.number("classifier-threshold", 0.0) > 0:
        card["confidence"] = reading.number("classifier-threshold", 0.0)
    return card


def _sections(path: Path) -> Mapping[str, Mapping[str, str]]:
    """Return the sections of a file in either form of DeepStream: that of GLib's key files, or YAML."""
    text = read_text(path)
    return _of_yaml(path, text) if path.suffix.lower() in (".yml", ".yaml") else sections_of(path, text.splitlines())


def read_text(path: Path) -> str:
    """Return the text of a configuration. Raises ModelError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ModelError(f"{path} is larger than {MAX_BYTES} bytes: it is no configuration of nvinfer")
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not UTF-8 text") from error


def sections_of(path: Path, lines: Sequence[str], *, section: str | None = None) -> dict[str, dict[str, str]]:
    """Return the sections of GLib's key files. `section` is the one that lines before the first section belong to;
    without it there may be none. Raises ModelError naming file and line.
    """
    sections: dict[str, dict[str, str]] = {}
    current = None if section is None else sections.setdefault(section, {})
    for number, line in enumerate(lines, 1):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        if plain.startswith("[") and plain.endswith("]"):
            current = sections.setdefault(plain[1:-1].strip(), {})
            continue
        key, equals, value = plain.partition("=")
        if not equals or current is None:
            raise ModelError(f"{path}, line {number}: {plain[:60]!r} is neither [section] nor key=value")
        current[key.strip()] = value.strip()
    return sections


def _of_yaml(path: Path, text: str) -> Mapping[str, Mapping[str, str]]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        document = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise ModelError(f"{path} is not valid YAML") from error
    if not isinstance(document, dict):
        return {}
    return {
        str(name): {str(key): str(value) for key, value in section.items()}
        for name, section in document.items()
        if isinstance(section, dict)
    }


def _model(reading: _Reading) -> Path:
    named = reading.settings.get("onnx-file")
    if named:
        return _file(reading, named, "onnx-file")
    other = next((key for key in _OTHER_MODELS if key in reading.settings), None)
    if other == _ENCRYPTED:
        raise reading.error(f"{other}={reading.settings[other]} {KNOWN_SUFFIXES['.etlt']}, and name it with onnx-file")
    if other is not None:
        raise reading.error(
            f"{other}={reading.settings[other]}: only ONNX files are read; export the model to ONNX and name it with "
            "onnx-file"
        )
    raise reading.error("names no onnx-file; an engine alone (model-engine-file) is for one GPU: give its ONNX file")


def _file(reading: _Reading, named: str, key: str) -> Path:
    """Return a file that a configuration names, relative to it; one of that name beside it where it moved."""
    folder = reading.path.parent
    for path in (folder / named, folder / Path(named).name):
        if path.is_file():
            return path
    raise reading.error(f"{key}={named}: there is no such file, and none of that name beside the configuration")


def _task(reading: _Reading) -> str | None:
    kind = reading.settings.get("network-type", _ONE if reading.settings.get("is-classifier") == _ONE else "0")
    if kind == "100":
        reading.notes.append("network-type=100: the outputs show which step it is for")
        return None
    if kind not in _TASKS:
        raise reading.error(f"[property] network-type={kind}: must be one of {', '.join((*_TASKS, '100'))}")
    return _TASKS[kind]


def _labels(reading: _Reading, task: str | None) -> list[str]:
    named = reading.settings.get("labelfile-path")
    if named is None:
        return []
    labels = list(read_labels(_file(reading, named, "labelfile-path")))
    if task == "classify" and any(";" in label for label in labels):
        if len(labels) > 1:
            raise reading.error(
                "its classifier has several outputs with labels each: write a card beside the ONNX file with "
                "`attributes: {NAME: [labels]}` and add that"
            )
        labels = [label.strip() for label in labels[0].split(";") if label.strip()]
    count = reading.settings.get("num-detected-classes")
    if task == "detect" and count is not None and count != str(len(labels)):
        raise reading.error(f"num-detected-classes={count}, and {named} has {len(labels)} labels")
    return labels


def _input(reading: _Reading) -> dict[str, Any]:
    settings = reading.settings
    factor = reading.number("net-scale-factor", 1.0)
    if factor <= 0:
        raise reading.error(f"[property] net-scale-factor={factor:g}: must be above 0")
    offsets = reading.numbers("offsets", (0.0,))
    found: dict[str, Any] = {
        "color": reading.one_of("model-color-format", _COLORS, "0"),
        "mean": list(offsets),
        "scale": [float(f"{1 / factor:.{_DIGITS}g}")],
    }
    dims = reading.numbers("infer-dims", reading.numbers("input-dims", ()))
    if len(dims) >= 3:
        _, height, width = dims[:3]
        found["size"] = [int(width), int(height)]
    if settings.get("network-input-order", "0") == _ONE:
        found["layout"] = "nhwc"
    if settings.get("maintain-aspect-ratio", "0") == _ONE:
        align = "center" if settings.get("symmetric-padding", "0") == _ONE else "top_left"
        found |= {"fit": "letterbox", "align": align, "pad": [0]}
    else:
        found["fit"] = "stretch"
    found["resize"] = _FILTERS.get(settings.get("scaling-filter", ""), "bilinear")
    if settings.get("scaling-filter") not in _FILTERS:
        given = settings.get("scaling-filter")
        what = "DeepStream takes the nearest pixel" if given is None else f"scaling-filter={given}"
        reading.notes.append(
            f"{what}: images are resized bilinearly here, as training does (`resize: nearest` in the card is the other)"
        )
    if "mean-file" in settings:
        raise reading.error(f"mean-file={settings['mean-file']}: a mean for each pixel is not supported: use offsets")
    return found


def _boxes(reading: _Reading, labels: list[str]) -> dict[str, Any]:
    """Return confidence and suppression."""
    usual = _threshold(reading, _ALL, (_PRE, _POST))
    own = {}
    for section in reading.sections:
        number = section.removeprefix(_CLASS)
        if section.startswith(_CLASS) and number.isdigit():
            value = _threshold(reading, section, _thresholds(reading, _ALL, (_PRE, _POST)))
            if int(number) < len(labels) and value != usual:
                own[labels[int(number)]] = value
            elif int(number) >= len(labels):
                reading.notes.append(f"[{section}]: there is no label of that number")
    found: dict[str, Any] = {"confidence": usual, "nms": _nms(reading)}
    if own:
        found["class_confidence"] = own
    return {key: value for key, value in found.items() if value}


def _thresholds(reading: _Reading, section: str, default: tuple[float, float]) -> tuple[float, float]:
    before = reading.number("threshold", default[0], section=section)
    return (
        reading.number("pre-cluster-threshold", before, section=section),
        reading.number("post-cluster-threshold", default[1], section=section),
    )


def _threshold(reading: _Reading, section: str, default: tuple[float, float]) -> float:
    """Return the confidence that a box needs: what the second threshold drops cannot have suppressed what stays."""
    return max(_thresholds(reading, section, default))


def _nms(reading: _Reading) -> dict[str, Any]:
    mode = reading.settings.get("cluster-mode", _ONE if reading.settings.get("enable-dbscan") == _ONE else "0")
    overlap = {"method": "hard", "iou": reading.number("nms-iou-threshold", _IOU, section=_ALL)}
    if mode == _NMS:
        return overlap
    if mode == _NO_CLUSTERING:
        return {"method": "none"}
    if mode not in _CLUSTERINGS:
        raise reading.error(f"[property] cluster-mode={mode}: must be 0, 1, 2, 3 or 4")
    reading.notes.append(f"cluster-mode={mode} ({_CLUSTERINGS[mode]}): overlapping boxes are suppressed (NMS) here")
    return overlap if mode == _GROUPS_AND_NMS else {"method": "hard", "iou": _USUAL_IOU}


def _note_the_rest(reading: _Reading) -> None:
    """Say of every other key what becomes of it."""
    reading.notes += _notes(reading)
    for section, given in reading.sections.items():
        if section == PROPERTY:
            continue
        if not section.startswith(_CLASS):
            reading.notes.append(f"[{section}]: is no section of nvinfer that is known here")
            continue
        for key, value in given.items():
            if key == "nms-iou-threshold" and section != _ALL:
                reading.notes.append(f"[{section}] {key}={value}: one value is for all classes here")
            elif key in _OF_CLASSES and value not in _NOTHING:
                reading.notes.append(f"[{section}] {key}={value}: {_OF_CLASSES[key]}")


def _notes(reading: _Reading) -> Iterator[str]:
    settings = reading.settings
    computed = [key for key in settings if key in _COMPUTED]
    if computed:
        yield f"{', '.join(computed)}: found out for each machine (`precision` and `batch` in the pipeline)"
    for key, value in settings.items():
        if key in _TAKEN or key in _COMPUTED or key in _IDENTITY or (key == "process-mode" and value == _ONE):
            continue
        if key == "interval":
            if (between := int(reading.number(key, 0))) > 0:
                yield f"interval={value}: {_IN_PIPELINE[key].format(plus=between + 1)}"
        elif key in _IN_PIPELINE:
            yield f"{key}={value}: {_IN_PIPELINE[key].format()}"
        elif key.startswith("parse-") or key in ("custom-lib-path", "engine-create-func-name"):
            yield f"{key}={value}: compiled code is not run; the outputs show which head reads them"
        else:
            yield f"{key}={value}: has no counterpart here"
