"""What a model is and how a step would run it, as data: for the text and the JSON of `sightline models show`.

Nothing is decided here. The step's own plan decides, and records where each value comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from sightline.devices.discovery import take_device
from sightline.errors import ConfigurationError, DeviceUnavailable, ModelError
from sightline.graph import CheckContext, Outputs, Problem, Site
from sightline.graph.chosen import ChosenValue
from sightline_plugins.engines.model_file import external_files, read_model
from sightline_plugins.heads.head import MatchScore
from sightline_plugins.heads.registry import heads_of, match_head, match_scores
from sightline_plugins.infer.card import MAX_BYTES, card_path, read_card, read_labels, read_metadata
from sightline_plugins.infer.chosen import box_values, preprocessing_values
from sightline_plugins.infer.facts import ModelFacts, ModelInputs, find_inputs, read_facts
from sightline_plugins.infer.opening import preview_engine
from sightline_plugins.infer.options import DetectionElement, ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.precision import file_digest, find_quantized
from sightline_plugins.infer.tasks import TaskChoice, signature_of
from sightline_plugins.store import Record, Store, stored_model

_LABEL_FILES = (".names", ".txt", ".labels")
_MOST_FILES = 200


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The file itself. `sha256` is that of the file; `weights` are further files that hold its weights."""

    path: str
    bytes: int
    sha256: str
    format: str
    opset: Mapping[str, int]
    ir_version: int
    producer: str
    parameters: int
    operators: int
    weights: tuple[str, ...]
    card: str | None
    licence: str | None
    trained_on: str | None
    quantized: str | None


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output; an open size of the shape is its name, or None. `note` says what it is for."""

    name: str
    type: str
    shape: tuple[int | str | None, ...]
    note: str


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """The head that reads the outputs. `tried` is the number of heads of the step, `also_fit` names others."""

    name: str
    origin: str
    family: str
    outputs: str
    options: Mapping[str, Any]
    tried: int
    also_fit: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelFacts:
    """The class names. `count` is that of the outputs where there are no names, None where they do not tell.

    `by_attribute` is for classifiers with several outputs. `file_beside` has as many names as the model has classes.
    """

    names: tuple[str, ...]
    origin: str | None
    count: int | None
    by_attribute: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    file_beside: str | None = None


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The engine that would be used here, and the file and precision that it would open."""

    name: str
    runs_on: str
    device_reason: str
    is_compiled: bool | None
    reason: str
    file: str
    precision: str
    precision_reason: str


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model. Parts are None where `problems` prevent them, `file` for a served model, and `stored` for a model that
    is not in a store. `model` is what a pipeline names it by.
    """

    model: str
    stored: Record | None
    file: FileFacts | None
    metadata: Mapping[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    step: TaskChoice
    head: HeadFacts | None
    labels: LabelFacts | None
    preprocessing: Mapping[str, ChosenValue]
    boxes: Mapping[str, ChosenValue]
    engine: EngineFacts | None
    options: Mapping[str, Any]
    problems: tuple[str, ...]


def describe(
    element: ModelElement, choice: TaskChoice, *, given: Mapping[str, Any]
) -> tuple[ModelDescription, ModelPlan | None]:
    """Return the description of a step's model, and the plan where there is one. `given` are the options that were set.

    Raises ModelError for a model that cannot be read, and ConfigurationError for an option that is wrong.
    """
    facts = read_facts(element.model)
    plan, _ = element.plan()
    problems = _problems(element)
    wrong = [problem for problem in problems if problem.key and problem.key[0] in given]
    if wrong:
        raise ConfigurationError("; ".join(f"--set {problem.key[0]}: {problem.message}" for problem in wrong))
    engine = None
    messages = [problem.message for problem in problems]
    if plan is not None:
        try:
            engine = _engine(element, plan)
        except (ConfigurationError, DeviceUnavailable, ModelError) as error:
            messages.append(str(error))
    labels = None if plan is None else _labels(element, plan)
    stored = stored_model(element.model) if isinstance(element.model, Path) else None
    in_store = stored is not None and stored.folder.is_relative_to(Store().folder)
    model = str(stored.reference if stored is not None and in_store else element.model)
    options = {"model": model, **given}
    if labels is not None and labels.file_beside is not None and not labels.names:
        options["labels"] = labels.file_beside
    file, inputs, outputs = _file(element.model, facts)
    description = ModelDescription(
        model=model,
        stored=None if stored is None else stored.record,
        file=file,
        metadata=dict(facts.metadata),
        inputs=inputs,
        outputs=outputs,
        step=choice,
        head=_head(element, plan, facts),
        labels=labels,
        preprocessing={} if plan is None else dict(_preprocessing(plan)),
        boxes=dict(box_values(element, plan)) if isinstance(element, DetectionElement) and plan is not None else {},
        engine=engine,
        options=options,
        problems=tuple(dict.fromkeys(messages)),
    )
    return description, plan


def _problems(element: ModelElement) -> list[Problem]:
    from sightline.devices import resolve_device

    return list(element.check(CheckContext(resolve_device("auto"), ("image",), Outputs())))


def _file(model: Path | str, facts: ModelFacts) -> tuple[FileFacts | None, tuple[Port, ...], tuple[Port, ...]]:
    roles = _roles(facts)
    if isinstance(model, str):
        inputs = (
            Port(spec.name, spec.dtype.name, spec.shape, roles.get(row, "")) for row, spec in enumerate(facts.inputs)
        )
        outputs = (Port(spec.name, spec.dtype.name, spec.shape, "") for spec in facts.outputs)
        return None, tuple(inputs), tuple(outputs)
    parsed, _ = read_model(model)
    made = {row: f"made by {op}" for row, op in enumerate(facts.output_ops) if op}
    card, stated = card_path(model), read_card(model)
    try:
        quantized = str(find_quantized(model).path)
    except ModelError:
        quantized = None
    about = FileFacts(
        path=str(model),
        bytes=model.stat().st_size,
        sha256=file_digest(model),
        format="ONNX",
        opset={entry.domain or "ai.onnx": entry.version for entry in parsed.opset_import},
        ir_version=parsed.ir_version,
        producer=" ".join(filter(None, (parsed.producer_name, parsed.producer_version))),
        parameters=sum(int(np.prod(tensor.dims, dtype=np.int64)) for tensor in parsed.graph.initializer),
        operators=len(parsed.graph.node),
        weights=tuple(path.name for path in external_files(model)),
        card=str(card) if card.is_file() else None,
        licence=stated.licence,
        trained_on=stated.trained_on,
        quantized=quantized,
    )
    return about, tuple(_ports(parsed.graph.input, roles)), tuple(_ports(parsed.graph.output, made))


def _roles(facts: ModelFacts) -> dict[int, str]:
    """Return what each input is for, by its place; nothing for a model that does not take images."""
    try:
        inputs = find_inputs(facts.inputs)
    except ModelError:
        return {}
    what = "the image" if inputs.stack is None else "a stack of frames"
    extras = {"size_wh": "width and height", "size_hw": "height and width", "scale": "the scale"}
    roles = {row: f"{extras[kind]} of the image" for row, kind in inputs.extras.items()}
    return {inputs.image: f"{what}, {_layout(inputs).upper()}", **roles}


def _layout(inputs: ModelInputs) -> str:
    if inputs.stack is not None:
        return f"n{inputs.stack.order}"
    return "nhwc" if inputs.channels_last else "nchw"


def _ports(entries: Sequence[onnx.ValueInfoProto], notes: Mapping[int, str]) -> Iterator[Port]:
    for row, entry in enumerate(entries):
        kind = entry.type.tensor_type
        shape = tuple(
            size.dim_value if size.HasField("dim_value") else size.dim_param or None for size in kind.shape.dim
        )
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        yield Port(entry.name, np.dtype(dtype).name, shape, notes.get(row, ""))


def _head(element: ModelElement, plan: ModelPlan | None, facts: ModelFacts) -> HeadFacts | None:
    """Return the head of the plan; without a plan, the head that the outputs fit, if there is one."""
    heads, exported = heads_of(element.task), read_metadata(facts.metadata)
    labels = exported.labels if plan is None else plan.labels
    size_wh = exported.size_wh if plan is None else plan.preprocessing.size_wh
    signature = signature_of(facts, exported, size_wh=size_wh, labels=labels)
    scores = match_scores(signature, heads.values())
    head, origin, given = None, "outputs", None
    if plan is not None:
        head, origin, given = plan.head, plan.origins.get("head", origin), plan.head_options
    else:
        with suppress(ModelError):
            head = heads[match_head(signature, heads.values())]
    if head is None:
        return None
    return HeadFacts(
        name=head.name,
        origin=origin,
        family=head.family,
        outputs=head.outputs,
        options={} if given is None else given.model_dump(mode="json", exclude_defaults=True),
        tried=len(heads),
        also_fit=tuple(name for name, score in scores.items() if score is not MatchScore.NONE and name != head.name),
    )


def _labels(element: ModelElement, plan: ModelPlan) -> LabelFacts:
    given = getattr(element, "attributes", None)
    by_attribute = given or plan.card.attributes
    if by_attribute:
        return LabelFacts((), "card" if given is None else "option", None, dict(by_attribute))
    count = plan.head.count_classes([output.shape for output in plan.outputs]) if plan.head is not None else None
    if plan.labels:
        return LabelFacts(plan.labels, plan.origins["labels"], len(plan.labels))
    beside = _labels_beside(element.model, count) if isinstance(element.model, Path) and count else None
    return LabelFacts((), None, count, file_beside=beside)


def _labels_beside(model: Path, count: int) -> str | None:
    """Return a file beside a model that has as many names as the model has classes; its own name goes first."""
    try:
        files = [path for path in islice(model.parent.iterdir(), _MOST_FILES) if path.suffix in _LABEL_FILES]
    except OSError:
        return None
    for path in sorted(files, key=lambda path: (path.stem != model.stem, path.name)):
        try:
            if path.is_file() and path.stat().st_size <= MAX_BYTES and len(read_labels(path)) == count:
                return str(path)
        except (OSError, ModelError):
            continue
    return None


def _preprocessing(plan: ModelPlan) -> Iterator[tuple[str, ChosenValue]]:
    yield from preprocessing_values(plan)
    yield "layout", ChosenValue(_layout(plan.inputs), "file")


def _engine(element: ModelElement, plan: ModelPlan) -> EngineFacts:
    device = take_device("auto")
    try:
        gpu = device.gpus[0] if device.gpus else None
        site = Site(device=device.devices[0], element_id=element.name, gpu=gpu)
        preview, chosen = preview_engine(element, plan, site=site)
    finally:
        device.let_go()
    return EngineFacts(
        name=preview.name,
        runs_on=preview.runs_on,
        device_reason=device.reason,
        is_compiled=preview.is_compiled,
        reason=preview.reason,
        file=str(chosen.model),
        precision=chosen.precision,
        precision_reason=chosen.reason,
    )
