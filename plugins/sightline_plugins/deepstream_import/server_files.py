"""nvinferserver's files: the keys of the protobuf text in the words of nvinfer, so that both are read in one way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sightline_plugins.deepstream_import.outcomes import Outcome
from sightline_plugins.deepstream_import.plan import Import
from sightline_plugins.deepstream_import.sections import Configuration, Entry, Section
from sightline_plugins.deepstream_import.settings import Settings
from sightline_plugins.deepstream_import.tables.inference import INPUT_CONTROL, NVINFERSERVER, OUTPUT_CONTROL

_FORMATS = {"IMAGE_FORMAT_RGB": "0", "IMAGE_FORMAT_BGR": "1", "IMAGE_FORMAT_GRAY": "2"}
_PROCESS_MODES = {"PROCESS_MODE_FULL_FRAME": "1", "PROCESS_MODE_CLIP_OBJECTS": "2"}
_KINDS = {"detection": "0", "classification": "1", "trtis_classification": "1", "triton_classification": "1"}
_KEYS: Mapping[str, str] = {
    "unique_id": "gie-unique-id",
    "preprocess.maintain_aspect_ratio": "maintain-aspect-ratio",
    "preprocess.symmetric_padding": "symmetric-padding",
    "preprocess.frame_scaling_filter": "scaling-filter",
    "preprocess.normalize.scale_factor": "net-scale-factor",
    "preprocess.normalize.channel_offsets": "offsets",
    "postprocess.labelfile_path": "labelfile-path",
    "postprocess.detection.num_detected_classes": "num-detected-classes",
    "postprocess.detection.custom_parse_bbox_func": "parse-bbox-func-name",
    "postprocess.classification.custom_parse_classifier_func": "parse-classifier-func-name",
    "postprocess.classification.threshold": "classifier-threshold",
    "postprocess.segmentation.custom_parse_segmentation_func": "parse-segmentation-func-name",
}
_CONTROL: Mapping[str, str] = {
    "interval": "interval",
    "operate_on_gie_id": "operate-on-gie-id",
    "operate_on_class_ids": "operate-on-class-ids",
    "secondary_reinfer_interval": "secondary-reinfer-interval",
    "object_control.bbox_filter.min_width": "input-object-min-width",
    "object_control.bbox_filter.min_height": "input-object-min-height",
}
_CLASSIFIER_TYPES = ("classifier_type", "classifier_control.classifier_type")
_THRESHOLDS = (
    "postprocess.detection.nms.confidence_threshold",
    "postprocess.detection.simple_cluster.threshold",
    "postprocess.detection.group_rectangle.confidence_threshold",
    "postprocess.detection.dbscan.pre_threshold",
)
_IOU = "postprocess.detection.nms.iou_threshold"
_MOST = "postprocess.detection.nms.topk"
_OF_CLASS = "postprocess.detection.per_class_params"
_BACKENDS = ("backend.triton", "backend.trt_is")


@dataclass(frozen=True, slots=True)
class ServerFile:
    """A file of nvinferserver: what it says in nvinfer's words, and the model's address where a server has it."""

    configuration: Configuration
    model: str | None


def of_nvinferserver(found: Configuration, imported: Import) -> ServerFile:
    """Return a file of nvinferserver in the words of nvinfer; what becomes of its own keys is reported."""
    infer = found.sections["infer_config"]
    settings = Settings(infer, NVINFERSERVER, imported.outcomes)
    made = Configuration(found.path)
    section = made.section("property", infer.place)
    for key, name in _KEYS.items():
        if key in settings:
            section.add(_same(settings, key, name, _plain(settings.text(key))))
    if "preprocess.network_format" in settings:
        color = _FORMATS.get(settings.text("preprocess.network_format"), "0")
        section.add(_same(settings, "preprocess.network_format", "model-color-format", color))
    kind = next((number for name, number in _KINDS.items() if _has(infer, f"postprocess.{name}")), None)
    kind = "2" if _has(infer, "postprocess.segmentation") else kind or "100"
    section.add(Entry("network-type", kind, infer.place, ()))
    model = _model(settings, section)
    _classes(settings, made, section)
    _control(found, section, imported)
    settings.close(but=_reported(made, infer.name))
    return ServerFile(made, model)


def _same(settings: Settings, key: str, name: str, value: str) -> Entry:
    """Return the entry of nvinfer that means the same as a key here, and is reported as that key."""
    return Entry(name, value, settings.place(key), (settings.name, key))


def _reported(made: Configuration, section: str) -> set[str]:
    """Return the keys of a section that are reported when their counterparts are."""
    entries = [entry for part in made.sections.values() for entry in part.entries.values()]
    return {entry.given_as[1] for entry in entries if entry.given_as and entry.given_as[0] == section}


def _has(section: Section, prefix: str) -> bool:
    return any(key == prefix or key.startswith(f"{prefix}.") for key in section.entries)


def _plain(text: str) -> str:
    return {"true": "1", "false": "0"}.get(text.lower(), text)


def _model(settings: Settings, section: Section) -> str | None:
    """Return the address of a model that a Triton server has; else name its ONNX file in the model repository."""
    for backend in _BACKENDS:
        name = settings.text(f"{backend}.model_name")
        if not name:
            continue
        address = settings.text(f"{backend}.grpc.url")
        if address:
            return f"grpc://{address.removeprefix('grpc://')}/{name}"
        root = settings.text(f"{backend}.model_repo.root", ".")
        version = settings.text(f"{backend}.version", "-1")
        folder = section.place.file.parent / root / name
        path = folder / (version if version.isdigit() else _newest(folder)) / "model.onnx"
        section.add(_same(settings, f"{backend}.model_name", "onnx-file", str(path.absolute())))
        return None
    raise section.place.error("infer_config names no model: backend { triton { model_name } } is missing")


def _newest(folder: Path) -> str:
    versions = [int(one.name) for one in folder.iterdir() if one.name.isdigit()] if folder.is_dir() else []
    return str(max(versions, default=1))


def _classes(settings: Settings, made: Configuration, section: Section) -> None:
    threshold = next((key for key in _THRESHOLDS if key in settings), None)
    classes = made.section("class-attrs-all", section.place)
    if threshold is not None:
        classes.add(_same(settings, threshold, "pre-cluster-threshold", settings.text(threshold)))
    _own_thresholds(settings, made)
    if _MOST in settings:
        classes.add(_same(settings, _MOST, "topk", settings.text(_MOST)))
    if _IOU in settings:
        classes.add(_same(settings, _IOU, "nms-iou-threshold", settings.text(_IOU)))
    if _has(settings.section, "postprocess.detection.nms"):
        section.add(Entry("cluster-mode", "2", section.place, ()))
    elif _has(settings.section, "postprocess.detection.simple_cluster"):
        section.add(Entry("cluster-mode", "4", section.place, ()))


def _own_thresholds(settings: Settings, made: Configuration) -> None:
    """Add the thresholds of single classes: `key` and `pre_threshold` come in pairs."""
    numbers, values = (settings.numbers(f"{_OF_CLASS}.{key}") for key in ("key", "value.pre_threshold"))
    if len(numbers) != len(values):
        text = "there are not as many values as classes: `class_confidence` sets it for each label"
        settings.note(f"{_OF_CLASS}.value.pre_threshold", Outcome.IMPOSSIBLE, text)
        return
    place = settings.place(f"{_OF_CLASS}.key")
    for number, value in zip(numbers, values, strict=True):
        section = made.section(f"class-attrs-{int(number)}", place)
        section.add(Entry("pre-cluster-threshold", f"{value:g}", place, ()))


def _control(found: Configuration, section: Section, imported: Import) -> None:
    for inner in found.named("input_control"):
        control = Settings(inner, INPUT_CONTROL, imported.outcomes)
        if "process_mode" in control:
            mode = _PROCESS_MODES.get(control.text("process_mode"), "1")
            section.add(_same(control, "process_mode", "process-mode", mode))
        for key, name in _CONTROL.items():
            if key in control:
                section.add(_same(control, key, name, control.text(key)))
        control.close(but=[*_CONTROL, "process_mode"])
    for inner in found.named("output_control"):
        control = Settings(inner, OUTPUT_CONTROL, imported.outcomes)
        for key in _CLASSIFIER_TYPES:
            if key in control:
                section.add(_same(control, key, "classifier-type", control.text(key)))
        control.close(but=_CLASSIFIER_TYPES)
