"""Read a model of a Triton repository: `config.pbtxt`, folders of versions with the ONNX file, and labels.

The configuration is a `ModelConfig` in protobuf's text format (triton-inference-server/common, `model_config.proto`).
It may be missing, as Triton needs none for ONNX. What it says of inputs and outputs has to be true of the graph. It
says nothing of colours, mean and scale: those are the client's, and come from the card or from the head's family.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped]

from sightline.errors import ModelError
from sightline_plugins.infer.card import MAX_BYTES, read_labels
from sightline_plugins.infer.facts import ModelFacts, find_inputs, read_facts
from sightline_plugins.model_import.package import ModelPackage, name_of, own_card
from sightline_plugins.store import Origin

CONFIGURATION = "config.pbtxt"
_MODEL_FILE = "model.onnx"
_LATEST, _SPECIFIC = "latest", "specific"
_BACKENDS = ("onnxruntime", "onnxruntime_onnx")
_CARD_TYPES = {"TYPE_FP32": "float32", "TYPE_FP16": "float16", "TYPE_UINT8": "uint8"}
_LAYOUTS = {"FORMAT_NHWC": "nhwc", "FORMAT_NCHW": "nchw"}
_TAKEN = ("name", "platform", "backend", "default_model_filename", "version_policy", "input", "output")
_COMPUTED = (
    *("max_batch_size", "instance_group", "dynamic_batching", "optimization", "model_warmup", "parameters"),
    *("response_cache", "model_transaction_policy", "runtime", "cc_model_filenames", "metric_tags"),
    *("model_operations", "model_repository_agents", "batch_input", "batch_output"),
)
"""How it is served, which is the pipeline's affair here."""
_ENSEMBLE = "ensemble_scheduling"
_FEW = 8

Message = Mapping[str, Sequence[Any]]
"""A message of the text format: all values of each field, in order; messages in it are mappings, too."""


@dataclass(frozen=True, slots=True)
class _Tensor:
    """An input or output as the configuration describes it; a size is -1 where it is open, and no sizes are known
    where Triton reshapes it.
    """

    name: str
    type: str
    dims: tuple[int, ...]


def is_triton(folder: Path) -> bool:
    """Whether a folder is that of a model in a repository: with a configuration, or with versions."""
    if (folder / CONFIGURATION).is_file():
        return True
    with suppress(OSError):
        return bool(_versions(folder, _MODEL_FILE))
    return False


def models_of(repository: Path) -> list[Path]:
    """Return the folders of the models in a repository, by name; none for another folder."""
    return sorted(folder for folder in repository.iterdir() if folder.is_dir() and is_triton(folder))


def read_triton(folder: Path) -> ModelPackage:
    """Return the model of a folder in a repository, its highest version; a card beside the ONNX file goes first.

    Raises ModelError for a configuration that cannot be read or is not true of the graph, for models of other backends,
    and for a folder without an ONNX file.
    """
    path = folder / CONFIGURATION
    config = read_message(path) if path.is_file() else {}
    _check_backend(path, config)
    model, others = _model(path, config)
    facts = read_facts(model)
    tensors = _tensors(path, config, "input"), _tensors(path, config, "output")
    has_batches = _integer(path, config, "max_batch_size") > 0
    _check_tensors(path, tensors[0], facts.inputs, kind="input", has_batches=has_batches)
    _check_tensors(path, tensors[1], facts.outputs, kind="output", has_batches=has_batches)
    card: dict[str, Any] = {"input": _input(config, tensors[0], facts, model, has_batches=has_batches)}
    labels = _labels(folder, path, config)
    if labels:
        card["labels"] = labels
    version = model.relative_to(folder).parts[0]
    card["source"] = f"a model of Triton ({folder.resolve().name}, version {version})"
    notes = tuple(_notes(config, version, others))
    given = own_card(model)
    card = {key: value for key, value in card.items() if value}
    place = str(folder.resolve())
    return ModelPackage(
        model, {**card, **given}, Origin("triton", place), name_of(folder.resolve().name), not_taken_over=notes
    )


def read_message(path: Path) -> Message:
    """Return what a file in protobuf's text format holds, whatever its fields are. Raises ModelError with the line."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ModelError(f"{path} is larger than {MAX_BYTES} bytes: it is no configuration of Triton")
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not UTF-8 text") from error
    try:
        return _message(text_format.Tokenizer(lines), end="")
    except (text_format.ParseError, RecursionError) as error:
        raise ModelError(f"{path} is not in protobuf's text format, line {error}") from error


def _message(tokens: Any, *, end: str) -> Message:
    """Return the fields up to a closing bracket, or to the end of the file."""
    found: dict[str, list[Any]] = {}
    while not (tokens.TryConsume(end) if end else tokens.AtEnd()):
        values = found.setdefault(tokens.ConsumeIdentifier(), [])
        colon = tokens.TryConsume(":")
        if tokens.TryConsume("["):
            while not tokens.TryConsume("]"):
                values.append(_value(tokens, colon=True))
                tokens.TryConsume(",")
        else:
            values.append(_value(tokens, colon=colon))
        if not tokens.TryConsume(","):
            tokens.TryConsume(";")
    return found


def _value(tokens: Any, *, colon: bool) -> Any:
    for opening, closing in (("{", "}"), ("<", ">")):
        if tokens.TryConsume(opening):
            return _message(tokens, end=closing)
    if not colon:
        raise tokens.ParseError("expected ':' or '{'")
    if tokens.token[:1] in ("'", '"'):
        return tokens.ConsumeString()
    value = tokens.token
    if not value or value in "}>]":
        raise tokens.ParseError("expected a value")
    tokens.NextToken()
    return value


def _text(config: Message, key: str) -> str:
    return str(config.get(key, ("",))[-1])


def _integer(path: Path, config: Message, key: str) -> int:
    text = _text(config, key) or "0"
    try:
        return int(text)
    except ValueError:
        raise ModelError(f"{path}: {key}: {text} is no whole number") from None


def _check_backend(path: Path, config: Message) -> None:
    if _ENSEMBLE in config or _text(config, "platform") == "ensemble":
        raise ModelError(f"{path}: is an ensemble of models: give the folder of the one that computes")
    named = _text(config, "backend") or _text(config, "platform")
    if named and named not in _BACKENDS:
        raise ModelError(
            f"{path}: is a model of the backend {named}: only ONNX models are read (onnxruntime); export it to ONNX"
        )


def _model(path: Path, config: Message) -> tuple[Path, list[str]]:
    """Return the ONNX file of the version that Triton would serve, the highest, and the names of other versions."""
    folder, name = path.parent, _text(config, "default_model_filename") or _MODEL_FILE
    if Path(name).name != name:
        raise ModelError(f"{path}: default_model_filename: {name!r} is no name of a file")
    versions = _versions(folder, name)
    policy = config.get("version_policy", ({},))[-1]
    specific = policy.get(_SPECIFIC) if isinstance(policy, Mapping) else None
    if specific:
        wanted = {str(one) for one in specific[-1].get("versions", ())}
        chosen = [one for one in versions if one in wanted]
        if not chosen:
            raise ModelError(f"{path}: version_policy names {', '.join(sorted(wanted))}, and none has {name}")
    else:
        chosen = versions
    if not chosen:
        raise ModelError(f"{folder} has no version with an ONNX file: {folder / '1' / name} is expected")
    return _file(folder / chosen[-1] / name), [one for one in versions if one != chosen[-1]]


def _versions(folder: Path, name: str) -> list[str]:
    """Return the versions that have a model, the highest last."""
    found = [one.name for one in folder.iterdir() if one.name.isdecimal() and _file(one / name).is_file()]
    return sorted(found, key=int)


def _file(model: Path) -> Path:
    """Return the ONNX file: a model with weights in files of their own is a folder of that name in Triton."""
    return model / _MODEL_FILE if model.is_dir() else model


def _tensors(path: Path, config: Message, kind: str) -> list[_Tensor]:
    found = []
    for entry in config.get(kind, ()):
        if not isinstance(entry, Mapping):
            raise ModelError(f"{path}: {kind} must be a message in braces")
        try:
            dims = () if "reshape" in entry else tuple(int(str(size)) for size in entry.get("dims", ()))
        except ValueError:
            raise ModelError(f"{path}: {kind} {_text(entry, 'name')!r}: dims must be whole numbers") from None
        found.append(_Tensor(_text(entry, "name"), _text(entry, "data_type"), dims))
    return found


def _check_tensors(
    path: Path, described: Sequence[_Tensor], specs: Sequence[Any], *, kind: str, has_batches: bool
) -> None:
    """Raise ModelError where the configuration describes tensors that the graph does not have."""
    known = {spec.name: spec for spec in specs}
    for tensor in described:
        spec = known.get(tensor.name)
        if spec is None:
            raise ModelError(f"{path} names {kind} {tensor.name!r}, and the model has {', '.join(known)}")
        dims = (-1, *tensor.dims) if has_batches else tensor.dims
        agrees = len(dims) == len(spec.shape) and all(
            size in (-1, own) or own is None for size, own in zip(dims[1:], spec.shape[1:], strict=True)
        )
        if dims and tensor.dims and not agrees:
            raise ModelError(f"{path}: {kind} {tensor.name!r} has dims {list(tensor.dims)}, and the model has {spec}")


def _input(
    config: Message, described: Sequence[_Tensor], facts: ModelFacts, model: Path, *, has_batches: bool
) -> dict[str, Any]:
    """Return what the configuration says of the image: its type, its layout, and its size where the graph leaves it
    open.
    """
    try:
        inputs = find_inputs(facts.inputs)
    except ModelError as error:
        raise ModelError(f"model {str(model)!r}: {error}") from error
    image = facts.inputs[inputs.image].name
    row = next((row for row, tensor in enumerate(described) if tensor.name == image), None)
    if row is None:
        return {}
    tensor, entry = described[row], config["input"][row]
    found: dict[str, Any] = {}
    if tensor.type in _CARD_TYPES:
        found["dtype"] = _CARD_TYPES[tensor.type]
    if _text(entry, "format") in _LAYOUTS:
        found["layout"] = _LAYOUTS[_text(entry, "format")]
    sizes = tensor.dims if has_batches else tensor.dims[1:]
    if len(sizes) == 3:
        height, width = sizes[:2] if inputs.channels_last else sizes[1:]
        if None in (inputs.width, inputs.height) and height > 0 and width > 0:
            found["size"] = [width, height]
    return found


def _labels(folder: Path, path: Path, config: Message) -> list[str]:
    """Return the labels of the first output that has some."""
    for output in config.get("output", ()):
        named = _text(output, "label_filename")
        if not named:
            continue
        file = (folder / named).resolve()
        if not file.is_relative_to(folder.resolve()) or not file.is_file():
            raise ModelError(f"{path}: label_filename: {named!r} is not in the folder of the model")
        return list(read_labels(file))
    return []


def _notes(config: Message, version: str, others: Sequence[str]) -> Iterator[str]:
    """Say what could not be taken over."""
    yield (
        "colours, mean, scale and how images are resized: Triton leaves them to its clients; the usual ones of the "
        "head are taken (`--set input={color: bgr, mean: 0, scale: 255, fit: stretch}` sets others)"
    )
    if others:
        more = ", ..." if others[_FEW:] else ""
        yield f"versions {', '.join(others[-_FEW:])}{more}: version {version} is the one that Triton serves"
    computed = [key for key in config if key in _COMPUTED]
    if computed:
        yield f"{', '.join(computed)}: how it is served (`batch` and `precision` in the pipeline)"
    for key in config:
        if key not in _TAKEN and key not in _COMPUTED:
            yield f"{key}: has no counterpart here"
