"""The text of `sightline models show`: sections of aligned lines, at most 100 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from sightline.graph.chosen import ChosenValue
from sightline_plugins.commands.models.describe import (
    EngineFacts,
    FileFacts,
    HeadFacts,
    LabelFacts,
    ModelDescription,
    Port,
)
from sightline_plugins.commands.models.on_image import ImageResult
from sightline_plugins.infer.chosen import origin_text
from sightline_plugins.store import Record

WIDTH = 100
_NAME = 12
_FEW_LABELS = 8
_FEW_OBJECTS = 10
_LONG_VALUE = 60
_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))

_NEXT = "Try options with --set KEY=VALUE, another step with --task."

Row = tuple[str, str]


def as_text(description: ModelDescription) -> str:
    """Return the description as sections."""
    file, head, labels, engine = description.file, description.head, description.labels, description.engine
    sections = [
        ("Model", _rows([("address", description.model)] if file is None else _file_rows(file))),
        ("Store", _rows(_store_rows(description.stored) if description.stored is not None else ())),
        ("Metadata", _rows((key, _short(value)) for key, value in sorted(description.metadata.items()))),
        ("Inputs", _ports(description.inputs)),
        ("Outputs", _ports(description.outputs)),
        ("Step", _rows(_step_rows(description))),
        ("Head", _rows([("none", "no head fits the outputs")] if head is None else _head_rows(head, description))),
        ("Labels", _rows(_label_rows(labels, description) if labels is not None else ())),
        ("Pre-processing", _values(description.preprocessing, description)),
        ("Boxes", _values(description.boxes, description)),
        ("Engine", _rows(_engine_rows(engine) if engine is not None else ())),
        ("Problems", _bullets(description.problems, then=_NEXT)),
        ("Pipeline", "" if description.problems else textwrap.indent(_yaml(description), "  ")),
    ]
    return "\n\n".join(f"{title}\n{body}" for title, body in sections if body)


def image_as_text(result: ImageResult) -> str:
    """Return the results of an image, the most confident first."""
    width, height = result.size
    lines = [f"Image\n  {result.file}, {width} x {height}: {_count(len(result.objects), 'object')}"]
    rows = [_object_row(found) for found in result.objects[:_FEW_OBJECTS]]
    lines += [f"  {line}" for line in _aligned(rows)]
    if len(result.objects) > _FEW_OBJECTS:
        lines.append(f"  and {len(result.objects) - _FEW_OBJECTS} more: --json prints all")
    lines += [line for text in result.warnings for line in _wrapped(f"warning: {text}", "  ", "    ")]
    lines.append(f"  drawn: {result.output}")
    return "\n".join(lines)


def _file_rows(file: FileFacts) -> Iterator[Row]:
    yield "file", file.path
    yield "size", _size(file.bytes)
    if file.weights:
        yield "weights in", ", ".join(file.weights)
    yield "SHA-256", file.sha256
    opsets = ", ".join(
        str(version) if domain == "ai.onnx" else f"{domain} {version}" for domain, version in file.opset.items()
    )
    yield "format", f"{file.format}, opset {opsets}, IR version {file.ir_version}"
    yield "producer", file.producer or "not stated"
    yield "contents", f"{_count(file.parameters, 'parameter')}, {_count(file.operators, 'operator')}"
    if file.licence is not None:
        yield "licence", file.licence
    if file.trained_on is not None:
        yield "trained on", file.trained_on
    yield "card", file.card or f"none ({Path(file.path).with_suffix('.yaml').name} beside it would be read)"
    if file.quantized is not None:
        yield "quantised", f"{file.quantized} (precision: int8 or auto uses it)"


def _store_rows(record: Record) -> Iterator[Row]:
    yield "name", str(record.reference)
    yield "added", record.added
    yield "from", f"{record.origin.place} ({record.origin.kind})"
    if record.licence is None:
        yield "licence", "not stated"
    for figure in record.accuracy:
        yield "accuracy", str(figure)
    for speed in record.speed:
        yield "speed", str(speed)
    for text in record.not_taken_over:
        yield "not taken", text


def _step_rows(description: ModelDescription) -> Iterator[Row]:
    step = description.step
    yield step.task, step.reason
    if step.others:
        yield "", f"its outputs also fit {' and '.join(step.others)}: choose with --task {step.others[0]}"


def _head_rows(head: HeadFacts, description: ModelDescription) -> Iterator[Row]:
    step = description.step.task
    yield head.name, head.family or "a head of another package"
    if head.outputs:
        yield "", f"reads {head.outputs}"
    if head.origin == "option":
        yield "", "set with --set head"
    elif head.origin == "card":
        yield "", "named by the model card"
    elif head.also_fit:
        others = ", ".join(head.also_fit)
        yield "", f"the names and shapes of the outputs are those of this head; {others} could read them, too"
    elif head.tried == 1:
        yield "", f"the only head for {step}, and it fits"
    else:
        yield "", f"of {head.tried} heads for {step} the only one that fits the names and shapes of the outputs"
    if head.options:
        yield "options", _flow(head.options)


def _label_rows(labels: LabelFacts, description: ModelDescription) -> Iterator[Row]:
    origin = _origin(labels.origin or "", description)
    if labels.by_attribute:
        for name, values in labels.by_attribute.items():
            yield name, _first(values)
        yield "", f"from {origin}"
    elif labels.names:
        yield str(len(labels.names)), _first(labels.names)
        yield "", f"from {origin}"
    elif description.step.task == "embed":
        yield "none", "a vector has none"
    elif description.step.task == "pose":
        yield "none", "needed only where the model finds several classes"
    else:
        classes = "" if labels.count is None else f"; the outputs have {_count(labels.count, 'class')}"
        yield "none", f"neither file nor card has names{classes}"
        if labels.file_beside is not None:
            yield "", f"{Path(labels.file_beside).name} beside it has as many: --set labels={labels.file_beside}"
        else:
            yield (
                "",
                "give them with labels: [first, second, ...] or labels: FILE, one name a line, in the step or the card",
            )


def _values(values: Mapping[str, ChosenValue], description: ModelDescription) -> str:
    rows = [
        (name, _value(name, value), _origin(value.origin, description, name=name)) for name, value in values.items()
    ]
    return "\n".join(f"  {line}" for line in _aligned(rows, minimum=_NAME))


def _value(name: str, value: ChosenValue) -> str:
    found = value.value
    if isinstance(found, tuple):
        if name == "size":
            return " x ".join(map(str, found))
        same = found[:1] if len(set(found)) == 1 else found
        return ", ".join(f"{number:g}" for number in same)
    if name in ("color", "layout"):
        return str(found).upper()
    if isinstance(found, bool):
        return "yes" if found else "no"
    return f"{found:g}" if isinstance(found, float) else str(found)


def _origin(origin: str, description: ModelDescription, *, name: str = "") -> str:
    head = "" if description.head is None else description.head.name
    model = description.model if description.file is None else Path(description.file.path)
    return "--set" if origin == "option" else origin_text(origin, name=name, model=model, head=head)


def _engine_rows(engine: EngineFacts) -> Iterator[Row]:
    yield "engine", f"{engine.name} on {'the CPU' if engine.runs_on == 'cpu' else engine.runs_on}"
    if engine.reason:
        yield "", engine.reason
    if engine.is_compiled is not None:
        yield (
            "compiled",
            "yes, kept in the cache" if engine.is_compiled else "not yet: the first start compiles it and keeps it",
        )
    yield "device", engine.device_reason
    default = "the file as it is (precision: bf16, fp16 or int8 change it)"
    yield "precision", f"{engine.precision}: {engine.precision_reason or default}"


def _ports(ports: Sequence[Port]) -> str:
    lines = _aligned([(port.name, port.type, _shape(port), port.note) for port in ports], minimum=_NAME)
    if max(map(len, lines), default=0) > WIDTH - 2:
        lines = [
            line
            for port in ports
            for line in (f"{port.name}  {port.type}", f"{'':{_NAME}}  {_shape(port)}  {port.note}".rstrip())
        ]
    return "\n".join(f"  {line}" for line in lines)


def _shape(port: Port) -> str:
    return f"({', '.join('?' if size is None else str(size) for size in port.shape)})"


def _object_row(found: Mapping[str, Any]) -> tuple[str, ...]:
    box = ", ".join("?" if side is None else f"{side:.0f}" for side in found["box"])
    confidence = "" if found["confidence"] is None else f"{found['confidence']:.2f}"
    details = [f"{name} {_short(value)}" for name, value in _attributes(found).items()]
    for name, what in (("keypoints", "keypoints"), ("embedding", "values of the embedding")):
        if found.get(name):
            details.append(f"{len(found[name])} {what}")
    if found.get("mask"):
        details.append("mask")
    return found["label"], confidence, f"box {box}", ", ".join(details)


def _attributes(found: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the attributes as text; a confidence goes with its attribute."""
    known = found.get("attributes") or {}
    texts: dict[str, str] = {}
    for name, value in known.items():
        if not name.endswith("_confidence"):
            confidence = known.get(f"{name}_confidence")
            text = ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            texts[name] = text if confidence is None else f"{text} ({confidence:.2f})"
    return texts


def _yaml(description: ModelDescription) -> str:
    """Return the step as YAML: on one line, or a line for each option where that is too long."""
    line = f"- {description.step.task}: {_flow(description.options)}"
    if len(line) <= WIDTH - 2:
        return line
    rows = [f"    {_flow({key: value})[1:-1]}" for key, value in description.options.items()]
    return "\n".join([f"- {description.step.task}:", *rows])


def _flow(values: Mapping[str, Any]) -> str:
    """Return a mapping as YAML on one line."""
    stream, yaml = StringIO(), YAML(typ="safe", pure=True)
    style = {"default_flow_style": True, "width": 1_000_000, "sort_base_mapping_type_on_output": False}
    for name, value in style.items():
        setattr(yaml, name, value)
    yaml.dump(dict(values), stream)
    return stream.getvalue().strip()


def _rows(rows: Iterable[Row]) -> str:
    table = list(rows)
    width = max([_NAME, *(len(name) for name, _ in table)])
    lines: list[str] = []
    for name, text in table:
        head = f"  {name:{width}}  "
        lines += _wrapped(text, head, " " * len(head)) or [head.rstrip()]
    return "\n".join(lines)


def _bullets(texts: Sequence[str], *, then: str) -> str:
    lines = [line for text in texts for line in _wrapped(text, "  - ", "    ")]
    return "\n".join([*lines, f"  {then}"] if lines else [])


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _aligned(rows: Sequence[Sequence[str]], *, minimum: int = 0) -> list[str]:
    """Return rows as aligned columns."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    widths[0] = max(widths[0], minimum)
    return ["  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in rows]


def _first(names: Sequence[str]) -> str:
    more = len(names) - _FEW_LABELS
    return ", ".join(names[:_FEW_LABELS]) + (f", and {more} more" if more > 0 else "")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONG_VALUE else f"{line[: _LONG_VALUE - 3]}..."


def _count(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def _size(count: int) -> str:
    for unit, factor in _UNITS:
        if count >= factor:
            return f"{count / factor:.1f} {unit} ({count:,} bytes)"
    return f"{count:,} bytes"
