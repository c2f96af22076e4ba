"""Elements of DL Streamer (`gvadetect`, `gvaclassify`, `gvatrack`, ...) as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sightline_plugins.deepstream_import.elements import GstElement
from sightline_plugins.deepstream_import.outcomes import Outcome
from sightline_plugins.deepstream_import.plan import Import, Stage, safe_name
from sightline_plugins.deepstream_import.sections import Section
from sightline_plugins.deepstream_import.settings import Settings, Table, differs, ignores, refuses, takes
from sightline_plugins.deepstream_import.source_text import is_file
from sightline_plugins.deepstream_import.tables.common import COMPUTED

_THRESHOLD = 0.5
"""DL Streamer's default of gvadetect's threshold."""
_INFERENCE: Table = {
    "model": takes("`model`"),
    "model-proc": differs("pre-processing and labels are read from the ONNX file; `labels`, `mean`, `scale` set them"),
    "model_proc": differs("pre-processing and labels are read from the ONNX file; `labels`, `mean`, `scale` set them"),
    "model-instance-id": takes("`id`"),
    "threshold": takes("`confidence`"),
    "inference-interval": takes("`every`"),
    "reclassify-interval": differs("`reinfer_interval`: a time, and not a number of frames"),
    "inference-region": takes("`on`, for objects"),
    "object-class": takes("`on: {label}`"),
    "labels": takes("`labels`"),
    "labels-file": takes("`labels`"),
    "device": ignores("`device` of the pipeline chooses it"),
    "pre-process-backend": ignores("frames are prepared on the planes of the decoder"),
    "pre-process-config": ignores("`fit`, `color`, `mean` and `scale` say it"),
    "custom-postproc-lib": differs("compiled code is not run: a head reads the outputs"),
    "ie-config": COMPUTED,
    "no-block": ignores("live streams drop their oldest frame, files wait"),
    **dict.fromkeys(("batch-size", "nireq", "cpu-throughput-streams", "gpu-throughput-streams", "reshape"), COMPUTED),
}
_TRACKING: Table = {
    "tracking-type": differs("`track`: a tracker of its own, `adaptive`"),
    "device": ignores("the tracker computes on the CPU"),
    "config": ignores("the tracker has options of its own"),
}
_CONVERT: Table = {
    "format": differs("records have the keys of `jsonl`"),
    "add-empty-results": ignores("frames without objects are written always"),
    "add-tensor-data": refuses("`tensors` keeps raw outputs for your own code"),
    "json-indent": ignores("a record is one line"),
    "method": ignores("all results are written"),
    "source": ignores("records have the name of the stream"),
    "tags": ignores("records have the name of the stream"),
}
_PUBLISH: Table = {
    "method": takes("`jsonl`, `mqtt` or `kafka`"),
    "file-path": takes("`jsonl: {path}`"),
    "file-format": ignores("one line a frame (`json-lines`)"),
    "address": takes("`url`"),
    "topic": takes("`topic`"),
    "mqtt-client-id": takes("`client_id`"),
    "max-connect-attempts": ignores("a broker that is away is tried again without end"),
    "max-reconnect-interval": ignores("a broker that is away is tried again at least every 2 s"),
}
_WATERMARK: Table = {"*": ignores("`draw` has options of its own")}
_REGION: Table = {"roi": refuses("`regions` of the model has them, in fractions of the frame", off=("",))}
_PYTHON: Table = {"*": refuses("`apply` calls a function in Python with each batch", off=())}


def add_elements(elements: Sequence[GstElement], imported: Import) -> None:
    """Add the steps of DL Streamer's elements."""
    for element in elements:
        table, add = ELEMENTS[element.kind]
        section = Section(element.kind, element.place, dict(element.properties))
        settings = Settings(section, table, imported.outcomes)
        add(settings, imported)
        settings.close()


def _model(settings: Settings, imported: Import) -> dict[str, Any]:
    """Return the options that all models share. Raises ConfigurationError where none is named."""
    named = settings.text("model")
    if not named:
        raise settings.section.place.error(f"{settings.name} names no model")
    path = settings.section.place.file.parent / named
    if path.suffix.lower() != ".onnx":
        path = path.with_suffix(".onnx")
        settings.note("model", Outcome.DIFFERENT, f"the ONNX file that it was made from, {path.name}")
    if not is_file(path):
        imported.outcomes.missing.append(f"{path}: the model is not there as ONNX; put it there, or set `model`")
    options: dict[str, Any] = {"model": imported.input_path(path)}
    if identity := settings.text("model-instance-id"):
        options["id"] = safe_name(identity, default="model").replace(".", "-")
    if labels := settings.text("labels-file") or settings.text("labels"):
        file = settings.section.place.file.parent / labels.removeprefix("file=")
        options["labels"] = imported.input_path(file) if is_file(file) or "," not in labels else labels.split(",")
    interval = settings.whole("inference-interval", 1)
    if interval > 1:
        options["every"] = interval
    return options


def _on(settings: Settings, *, default: str) -> dict[str, Any]:
    """Return which objects a model runs on; nothing for the whole frame."""
    classes = [one.strip() for one in settings.text("object-class").split(",") if one.strip()]
    if settings.text("inference-region", default) not in ("roi-list", "1"):
        return {}
    return {"on": {"label": classes}} if classes else {"on": {"min_confidence": 0}}


def _detect(settings: Settings, imported: Import) -> None:
    options = _model(settings, imported) | {"confidence": settings.number("threshold", _THRESHOLD)}
    on = _on(settings, default="full-frame")
    imported.plan.add(Stage.OBJECTS if on else Stage.DETECT, "detect", options | on, "gvadetect.")


def _classify(settings: Settings, imported: Import) -> None:
    options = _model(settings, imported)
    if frames := settings.whole("reclassify-interval", 0):
        options["reinfer_interval"] = imported.frames_to_time(frames)
    if threshold := settings.number("threshold", 0):
        options["confidence"] = threshold
    imported.plan.add(Stage.OBJECTS, "classify", options | _on(settings, default="roi-list"), "gvaclassify.")


def _infer(settings: Settings, imported: Import) -> None:
    options = _model(settings, imported) | _on(settings, default="full-frame")
    imported.plan.add(Stage.OBJECTS, "tensors", options, "gvainference: raw outputs.")


def _track(settings: Settings, imported: Import) -> None:
    settings.text("tracking-type")
    imported.plan.add(Stage.TRACK, "track", {}, "gvatrack.")


def _publish(settings: Settings, imported: Import) -> None:
    method = settings.text("method", "file")
    topic = settings.text("topic")
    if method in ("mqtt", "kafka"):
        server = settings.text("address", "localhost")
        url = imported.without_password(f"{method}://{server.partition('://')[2] or server}", name=method)
        options: dict[str, Any] = {"url": url} | ({"topic": topic} if topic else {})
        if method == "mqtt" and (client := settings.text("mqtt-client-id")):
            options["client_id"] = client
        imported.plan.add(Stage.RESULTS, method, options, "")
    else:
        path = settings.text("file-path")
        several = len(imported.plan.streams) > 1
        name = Path(path).stem + ("-{stream}" if several else "") if path and path != "stdout" else ""
        options = {"path": str(Path("out", f"{name}.jsonl"))} if name else {"path": "-"}
        imported.plan.add(Stage.RESULTS, "jsonl", options, "")


def _draw(settings: Settings, imported: Import) -> None:
    del settings
    if imported.plan.stages[Stage.VIDEO]:
        imported.plan.add(Stage.DRAW, "draw", {}, "")


def _nothing(settings: Settings, imported: Import) -> None:
    del settings, imported


ELEMENTS: Mapping[str, tuple[Table, Callable[[Settings, Import], None]]] = {
    "gvadetect": (_INFERENCE, _detect),
    "gvaclassify": (_INFERENCE, _classify),
    "gvainference": (_INFERENCE, _infer),
    "gvatrack": (_TRACKING, _track),
    "gvametaconvert": (_CONVERT, _nothing),
    "gvametapublish": (_PUBLISH, _publish),
    "gvawatermark": (_WATERMARK, _draw),
    "gvaattachroi": (_REGION, _nothing),
    "gvapython": (_PYTHON, _nothing),
}
"""What becomes of each element's properties, and what adds its step."""
