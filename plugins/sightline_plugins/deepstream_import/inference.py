"""Models: a section [primary-gie] or [secondary-gieN] with its file of nvinfer or nvinferserver becomes a step.

What nvinfer's file says about the model itself (pre-processing, thresholds, clustering) is read by
`model_import.deepstream`, as for `sightline models add`; what belongs into the pipeline is read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.errors import ConfigurationError
from sightline_plugins.deepstream_import.box_sizes import box_sizes
from sightline_plugins.deepstream_import.outcomes import KeyOutcome, Outcome
from sightline_plugins.deepstream_import.parsers import HEADS, ROW_PARSERS, TASKS, advice_on
from sightline_plugins.deepstream_import.plan import Import, ModelStep, Stage, Step, safe_name
from sightline_plugins.deepstream_import.sections import Configuration, Section
from sightline_plugins.deepstream_import.server_files import ServerFile, of_nvinferserver
from sightline_plugins.deepstream_import.settings import Settings, report_unknown_section
from sightline_plugins.deepstream_import.source_text import is_file
from sightline_plugins.deepstream_import.tables.inference import CLASS_ATTRIBUTES, GIE, NVINFER
from sightline_plugins.infer.card import read_labels
from sightline_plugins.infer.facts import read_facts
from sightline_plugins.model_import.deepstream import read_card
from sightline_plugins.model_import.package import ModelPackage, name_of, own_card
from sightline_plugins.store import Origin

_PROPERTY, _CLASS = "property", "class-attrs-"
_MODEL_KEYS = ("onnx-file", "tlt-encoded-model", "model-file", "uff-file", "custom-network-config", "model-engine-file")
_PARSERS = (
    *("parse-bbox-func-name", "parse-bbox-instance-mask-func-name", "parse-classifier-func-name"),
    *("parse-segmentation-func-name", "parse-func"),
)
_OF_PIPELINE = ("interval", "gie-unique-id", "operate-on-gie-id", "operate-on-class-ids", "labelfile-path")
"""Keys that deepstream-app's section sets instead of nvinfer's file."""
_CARD_KEYS = {
    "net-scale-factor": "scale",
    "offsets": "mean",
    "model-color-format": "color",
    "infer-dims": "size",
    "input-dims": "size",
    "maintain-aspect-ratio": "fit",
    "symmetric-padding": "align",
    "scaling-filter": "resize",
    "cluster-mode": "nms",
    "labelfile-path": "labels",
    "classifier-threshold": "confidence",
}
_INPUT = ("size", "color", "fit", "align", "resize", "pad", "mean", "scale")
_OF_CLASSIFIERS = ("attribute", "attributes")
_CLUSTERINGS = {"0": "groupRectangles", "1": "DBSCAN", "3": "DBSCAN, then NMS"}
_GROUPING = ("eps", "group-threshold", "minBoxes", "dbscan-min-score")
_THRESHOLDS = ("threshold", "pre-cluster-threshold", "post-cluster-threshold")
_WITHOUT_GROUPS, _WITH_IOU = ("2", "4"), ("2", "3")
_NEAREST_BY_DEFAULT = ("", "6")
_FILTERS = ("0", "1")
_SERVER_KEYS = {
    "scaling-filter": ("infer_config", "preprocess.frame_scaling_filter"),
    "cluster-mode": ("infer_config", "postprocess.detection"),
    "process-mode": ("input_control", "process_mode"),
    "crop-objects-to-roi-boundary": ("infer_config", "postprocess.detection"),
}
_OBJECTS = 2
_INSTANCES = "3"
_ROWS, _ROW = "end_to_end", 6
_ENGINE = re.compile(r"_b\d+_(gpu|dla)\d+_\w+\.engine$")
_FORMATS = (".onnx", ".etlt", ".tlt", ".uff", ".caffemodel")
_OLD_FORMATS = ("model-file", "proto-file", "tlt-encoded-model", "custom-network-config")


@dataclass(slots=True)
class Model:
    """A model as nvinfer's file describes it; `settings` reports on [property]."""

    settings: Settings
    section: Settings
    configuration: Configuration
    path: Path | None
    card: dict[str, Any]
    labels: tuple[str, ...]
    label_file: Path | None
    task: str | None
    parser: str
    is_server: bool
    attributes: tuple[tuple[str, ...], ...] = ()
    """The labels of each output of a classifier that has several."""
    resize: str | None = None
    """How images are resized whatever the card says."""


def add_model(section: Section, imported: Import, *, secondary: bool) -> None:
    """Add the step of a section of deepstream-app. Raises ConfigurationError and ModelError for what is wrong in it."""
    app = Settings(section, GIE, imported.outcomes)
    if not app.is_enabled:
        app.close(because="the model is switched off")
        return
    named = app.text("config-file") or app.text("config-file-path")
    if not named:
        raise section.place.error(f"[{section.name}] names no config-file")
    file = section.place.file.parent / named
    found = imported.read(file, named_by=f"[{section.name}] config-file")
    if found is None:
        app.close(because="its file is not there")
        return
    add_model_file(found, app, imported, secondary=secondary)
    app.close()


def add_model_file(found: Configuration, app: Settings, imported: Import, *, secondary: bool) -> None:
    """Add the step of a file of nvinfer or nvinferserver, whose settings those of `app` replace."""
    server = of_nvinferserver(found, imported) if "infer_config" in found.sections else None
    nvinfer = server.configuration if server is not None else found
    if _PROPERTY not in nvinfer.sections:
        raise ConfigurationError(f"{found.path} is no configuration of nvinfer: it has no section [property]")
    model = _read(nvinfer, app, imported, server=server)
    on_objects = secondary or _works_on_objects(model, app)
    step = _step(model, app, imported, secondary=on_objects)
    _edges(model, imported, secondary=on_objects)
    for key in _OF_PIPELINE:
        if key in app and key in model.settings:
            model.settings.note(key, Outcome.NO_EFFECT, f"[{app.name}] sets it")
    _report_classes(model, imported)
    model.settings.close()
    imported.plan.models.setdefault(_unique_id(model, app), ModelStep(step.options["id"], model.labels, step.element))


def _works_on_objects(model: Model, app: Settings) -> bool:
    return _either(model, app, "process-mode").whole("process-mode", 1) == _OBJECTS


def _either(model: Model, app: Settings, key: str) -> Settings:
    """Return the settings that decide a key: deepstream-app's where it stands there, else nvinfer's."""
    return app if key in app else model.settings


def _unique_id(model: Model, app: Settings) -> int:
    return _either(model, app, "gie-unique-id").whole("gie-unique-id", 1)


def _read(found: Configuration, app: Settings, imported: Import, *, server: ServerFile | None) -> Model:
    settings = Settings(found.sections[_PROPERTY], NVINFER, imported.outcomes)
    parser = next((settings.text(key) for key in _PARSERS if key in settings), "")
    labels, label_file = _labels(settings, app, imported)
    attributes: tuple[tuple[str, ...], ...] = ()
    if len(labels) > 1 and all(";" in label for label in labels):
        attributes, labels, label_file = tuple(_split(label) for label in labels), (), None
    elif len(labels) == 1 and ";" in labels[0]:
        labels, label_file = _split(labels[0]), None
    task, card = read_card(found.path, _for_card(found), labels=list(labels))
    if parser and HEADS.get(parser) in TASKS:
        task = TASKS[HEADS[parser]]
    served = server.model if server is not None else None
    path = None if served else _model_path(settings, imported)
    if "onnx-file" in settings:
        for key in settings.section.entries:
            if key in _OLD_FORMATS or key.startswith("uff-"):
                settings.note(key, Outcome.NO_EFFECT, "the ONNX file is read")
    for key in _PARSERS:
        if key in settings:
            text, is_new = advice_on(settings.text(key))
            settings.note(key, Outcome.IMPOSSIBLE if is_new else Outcome.DIFFERENT, text)
            if is_new:
                imported.unread_parsers.append(settings.text(key))
    model = Model(
        settings, app, found, path, dict(card), labels, label_file, task, parser, server is not None, attributes
    )
    if served:
        model.card["model"] = served
    if _has_rows(model):
        model.card["head"] = _ROWS
    _resize(model, imported)
    _clustering(model)
    return model


def _for_card(found: Configuration) -> Mapping[str, Mapping[str, str]]:
    """Return what the model's card is made of; labels are read before, and what it would refuse is reported here."""
    left_out = ("labelfile-path", "num-detected-classes", "mean-file")
    plain = found.plain()
    settings = {key: value for key, value in plain[_PROPERTY].items() if key not in left_out}
    return {**plain, _PROPERTY: settings}


def _labels(settings: Settings, app: Settings, imported: Import) -> tuple[tuple[str, ...], Path | None]:
    """Return the labels of a model, and their file where it has one a line."""
    owner = app if "labelfile-path" in app else settings
    named = owner.text("labelfile-path")
    if not named:
        return (), None
    path = owner.place("labelfile-path").file.parent / named
    if not is_file(path):
        imported.outcomes.missing.append(f"{path}: the labels that [{owner.name}] names are not there")
        return (), None
    labels = read_labels(path)
    if any(";" in label for label in labels):
        return labels, path
    count = settings.whole("num-detected-classes", len(labels))
    if count != len(labels):
        text = f"{path.name} has {len(labels)} labels, and the labels count"
        settings.note("num-detected-classes", Outcome.DIFFERENT, text)
    return labels, path


def _has_rows(model: Model) -> bool:
    """Return whether the outputs are rows of a box, its score and its class for each cell, as DeepStream-Yolo exports
    them; their shape alone could be that of other heads. A model that is not there is taken for such an export.
    """
    if model.parser not in ROW_PARSERS:
        return False
    if model.path is None or not is_file(model.path):
        return not model.is_server
    outputs = read_facts(model.path).outputs
    return len(outputs) == 1 and len(outputs[0].shape) == 3 and outputs[0].shape[-1] == _ROW


def _split(label: str) -> tuple[str, ...]:
    """Return the labels of a line of a classifier's file."""
    return tuple(one.strip() for one in label.split(";") if one.strip())


def _model_path(settings: Settings, imported: Import) -> Path:
    """Return the ONNX file; where there is none, the place at which the export belongs."""
    key = next((key for key in _MODEL_KEYS if key in settings), None)
    if key is None:
        raise settings.section.place.error("names no model: onnx-file is missing")
    named = Path(settings.text(key))
    folder = settings.section.place.file.parent
    if key == "onnx-file":
        for path in (folder / named, folder / named.name):
            if is_file(path):
                return path
        imported.outcomes.missing.append(f"{folder / named}: the model is not there; put it there, or set `model`")
        return folder / named
    path = folder / named.with_name(f"{_stem(named.name)}.onnx")
    if not is_file(path):
        imported.outcomes.missing.append(f"{path}: {key} is no ONNX file: export the model to ONNX, and put it there")
    return path


def _stem(name: str) -> str:
    """Return the name of a model without the endings of its format and of the engine that TensorRT makes of it."""
    engine = _ENGINE.search(name)
    plain = name if engine is None else name[: engine.start()]
    suffix = Path(plain).suffix
    return plain.removesuffix(suffix) if engine is None or suffix.lower() in _FORMATS else plain


def _resize(model: Model, imported: Import) -> None:
    """Decide how images are resized, which DeepStream does by the nearest pixel unless it is set."""
    given = model.settings.text("scaling-filter")
    if given in _NEAREST_BY_DEFAULT:
        how = "bilinear, as training does; DeepStream takes the nearest pixel, so scores differ by a little"
        if imported.compat:
            model.resize = "nearest"
            how = "`resize: nearest`, as DeepStream does"
        _note(model, "scaling-filter", Outcome.TAKEN if imported.compat else Outcome.DIFFERENT, how)
    elif given not in _FILTERS:
        model.settings.note("scaling-filter", Outcome.DIFFERENT, "bilinear; `resize: area` averages")


def _clustering(model: Model) -> None:
    mode = _cluster_mode(model)
    if mode in _CLUSTERINGS and model.task == "detect":
        text = f"{_CLUSTERINGS[mode]}: overlapping boxes are suppressed (NMS) here"
        _note(model, "cluster-mode", Outcome.DIFFERENT, text)


def _edges(model: Model, imported: Import, *, secondary: bool) -> None:
    """Say what differs where boxes begin and end: crops of objects, and boxes at the edges of the frame."""
    if imported.compat:
        if model.settings.flag("crop-objects-to-roi-boundary"):
            text = "`compat: deepstream` moves boxes into the frame and cuts none"
            model.settings.note("crop-objects-to-roi-boundary", Outcome.DIFFERENT, text)
    elif secondary:
        text = "crops are those of the boxes; DeepStream rounds them to even pixels (`compat: deepstream`)"
        _note(model, "process-mode", Outcome.DIFFERENT, text)
    elif model.task == "detect" and not model.settings.flag("crop-objects-to-roi-boundary"):
        text = (
            "boxes are clipped to the frame; DeepStream moves those that begin outside, and drops those that reach "
            "below it (`compat: deepstream`)"
        )
        _note(model, "crop-objects-to-roi-boundary", Outcome.DIFFERENT, text)


def _cluster_mode(model: Model) -> str:
    return model.settings.text("cluster-mode", "1" if model.settings.flag("enable-dbscan") else "0")


def _note(model: Model, key: str, outcome: Outcome, text: str) -> None:
    """Say what becomes of a key, also where it is not given and its default counts."""
    if key in model.settings:
        model.settings.note(key, outcome, text)
        return
    section, name = _SERVER_KEYS[key] if model.is_server else (model.settings.name, key)
    place = model.settings.section.place
    model.settings.outcomes.add(KeyOutcome(outcome, place, section, name, "(not given)", text))


def _step(model: Model, app: Settings, imported: Import, *, secondary: bool) -> Step:
    """Add the step, with its options in the order in which people read them."""
    settings, number = model.settings, _unique_id(model, app)
    task = model.task or ("detect" if model.parser else "tensors")
    card = _given_by_card(model)
    options: dict[str, Any] = {"id": _free_id(f"gie-{number}", imported)}
    options["model"] = model.card.get("model") or imported.input_path(model.path or Path())
    if secondary:
        options["on"] = _on(model, app, imported) or {"min_confidence": 0}
    interval = _either(model, app, "interval").whole("interval", 0)
    if interval > 0 and not secondary:
        options["every"] = interval + 1
        if imported.compat:
            _either(model, app, "interval").note("interval", Outcome.TAKEN, "`every`, counted in batches")
    elif "interval" in (owner := _either(model, app, "interval")):
        text = "it runs on objects, not on frames" if secondary else "it runs on every frame"
        owner.note("interval", Outcome.NO_EFFECT, text)
    options |= card | _thresholds(model, task) | _box_sizes(model, task, imported)
    if model.resize is not None:
        options["resize"] = model.resize
    if imported.compat:
        options["compat"] = "deepstream"
    if task == "classify":
        card |= _classifier(model, number)
        options |= card
    if filtered := settings.ids("filter-out-class-ids"):
        kept = [label for index, label in enumerate(model.labels) if index not in filtered]
        if kept and task == "detect":
            options["classes"] = kept
        else:
            settings.note("filter-out-class-ids", Outcome.IMPOSSIBLE, "without labels: list what to keep in `classes`")
    if secondary and (frames := settings.number("secondary-reinfer-interval", 0)) > 0:
        options["reinfer_interval"] = imported.frames_to_time(frames)
    kind = "on objects" if secondary else "on frames"
    stage = Stage.OBJECTS if secondary else Stage.DETECT
    step = imported.plan.add(stage, task, options, f"[{app.name}] {model.configuration.path.name}: {kind}.")
    if model.path is not None and is_file(model.path):
        step.package = _package(model, {key: card[key] for key in _OF_CLASSIFIERS if key in card})
        step.of_card = tuple(key for key in card if options[key] == card[key])
    return step


def _package(model: Model, classifier: Mapping[str, Any]) -> ModelPackage:
    """Return the model with its card, as the store takes it; `classifier` names what a classifier tells."""
    path = model.path or Path()
    card = {**model.card, **classifier, **({"labels": list(model.labels)} if model.labels else {}), **own_card(path)}
    if model.task is not None:
        card["task"] = model.task
    card.setdefault("source", f"a model of DeepStream ({model.configuration.path.name})")
    origin = Origin("deepstream", str(model.configuration.path.resolve()))
    return ModelPackage(path, card, origin, name_of(path.stem))


def _free_id(name: str, imported: Import) -> str:
    """Return the id of a step, which no other step has: DeepStream takes two models with the same one."""
    taken = {step.options.get("id") for step in imported.plan.steps()}
    return next(one for one in (name, *(f"{name}-{number}" for number in range(2, 1000))) if one not in taken)


def _given_by_card(model: Model) -> dict[str, Any]:
    """Return the options that the model's own card does not give; its keys go before those of nvinfer's file."""
    own: Mapping[str, Any] = {} if model.path is None or not is_file(model.path) else own_card(model.path)
    card, own_input = model.card, own.get("input", {})
    found: dict[str, Any] = {}
    if model.labels and "labels" not in own:
        found["labels"] = list(model.labels) if model.label_file is None else model.label_file
    if "head" in card and "head" not in own:
        found["head"] = card["head"]
    found |= {key: card["input"][key] for key in _INPUT if key in card["input"] and key not in own_input}
    found |= {key: card[key] for key in ("confidence", "class_confidence") if key in card and "confidence" not in own}
    nms = card.get("nms", {})
    if "nms" not in own:
        found |= {"iou": nms["iou"]} if "iou" in nms else {}
        found |= {"nms": nms["method"]} if nms.get("method") == "none" else {}
    for key, option in _CARD_KEYS.items():
        if key in model.settings and (option in own or option in own_input):
            model.settings.note(key, Outcome.NO_EFFECT, "the card beside the model goes before it")
    return found


def _thresholds(model: Model, task: str) -> dict[str, Any]:
    """Return the thresholds that a detector's file gives: those of the application, which go before a card."""
    sections = model.configuration.plain() if task == "detect" else {}
    classes = {name: keys for name, keys in sections.items() if name.startswith(_CLASS)}
    found: dict[str, Any] = {}
    if any(key in keys for keys in classes.values() for key in _THRESHOLDS):
        found |= {key: model.card[key] for key in ("confidence", "class_confidence") if key in model.card}
    nms = model.card.get("nms", {})
    if "iou" in nms and "nms-iou-threshold" in classes.get(f"{_CLASS}all", {}):
        found["iou"] = nms["iou"]
    return found


def _box_sizes(model: Model, task: str, imported: Import) -> dict[str, Any]:
    """Return which boxes are left out for their size or number."""
    if task != "detect" and model.settings.text("network-type") != _INSTANCES:
        return {}
    sections = model.configuration.sections.items()
    classes = {
        name: Settings(section, CLASS_ATTRIBUTES, imported.outcomes)
        for name, section in sections
        if name.startswith(_CLASS)
    }
    return box_sizes(classes, model.labels)


def _on(model: Model, app: Settings, imported: Import) -> dict[str, Any]:
    """Return which objects a secondary model runs on."""
    found: dict[str, Any] = {}
    owner = _either(model, app, "operate-on-gie-id")
    number = owner.whole("operate-on-gie-id", -1)
    source = imported.plan.models.get(number)
    if source is not None:
        found["from"] = source.id
    elif number >= 0:
        owner.note("operate-on-gie-id", Outcome.IMPOSSIBLE, f"no model has the id {number}: it runs on all objects")
    owner = _either(model, app, "operate-on-class-ids")
    if classes := owner.ids("operate-on-class-ids"):
        labels = source.labels if source is not None else ()
        names = [labels[one] for one in classes if 0 <= one < len(labels)]
        if len(names) < len(classes):
            text = "the labels of that model do not name these classes: give `on: {label}` yourself"
            owner.note("operate-on-class-ids", Outcome.IMPOSSIBLE, text)
        if names:
            found["label"] = names
    width, height = (max(0, model.settings.whole(f"input-object-min-{side}", 0)) for side in ("width", "height"))
    if width or height:
        found["min_size"] = [max(1, width), max(1, height)]
    return found


def _classifier(model: Model, number: int) -> dict[str, Any]:
    """Return what a classifier tells of an object: one attribute, or one for each output."""
    kind = model.settings.text("classifier-type")
    name = safe_name(kind, default=f"gie-{number}") if kind else ""
    if model.attributes:
        plain = name or f"gie-{number}"
        return {"attributes": {f"{plain}-{index}": list(one) for index, one in enumerate(model.attributes, 1)}}
    return {"attribute": name} if name else {}


def _report_classes(model: Model, imported: Import) -> None:
    """Report on the sections of classes, and on those that nvinfer does not have."""
    for name, section in model.configuration.sections.items():
        if name == _PROPERTY:
            continue
        number = name.removeprefix(_CLASS)
        if name.startswith(_CLASS) and (number.isdigit() or number == "all"):
            settings = Settings(section, CLASS_ATTRIBUTES, imported.outcomes)
            if number.isdigit() and model.labels and int(number) >= len(model.labels):
                settings.close(because=f"there are {len(model.labels)} labels")
                continue
            if number.isdigit() and "nms-iou-threshold" in settings:
                _note_own_iou(settings, model)
            _note_unused(settings, _cluster_mode(model))
            settings.close()
        else:
            report_unknown_section(section, (_PROPERTY, f"{_CLASS}all", f"{_CLASS}0"), imported.outcomes)


def _note_own_iou(settings: Settings, model: Model) -> None:
    """Report on the overlap of one class, which is of use where it is that of all classes."""
    usual = model.configuration.plain().get(f"{_CLASS}all", {}).get("nms-iou-threshold")
    if usual is not None and settings.text("nms-iou-threshold") == usual:
        settings.note("nms-iou-threshold", Outcome.TAKEN, "`iou`: as for all classes")
    else:
        settings.note("nms-iou-threshold", Outcome.IMPOSSIBLE, "one value is for all classes here")


def _note_unused(settings: Settings, mode: str) -> None:
    """Report keys of classes that the way of clustering does not use."""
    unused = [*(_GROUPING if mode in _WITHOUT_GROUPS else ()), *(() if mode in _WITH_IOU else ("nms-iou-threshold",))]
    for key in unused:
        if key in settings:
            settings.note(key, Outcome.NO_EFFECT, f"cluster-mode={mode} does not use it")
