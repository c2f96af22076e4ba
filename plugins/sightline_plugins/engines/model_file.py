"""Read ONNX files, and report everything that is wrong with one before an engine sees it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import TensorProto, external_data_helper

from sightline.errors import ModelError
from sightline.graph.fields import is_folder

LARGEST_BYTES = 2**31 - 1
_LOOKED_AT_BYTES = 512
_OPEN_CHANNELS, _CHANNELS = ("num_channels", "channels"), 3
_SPACE = 0x20

STANDARD = ("", "ai.onnx")
KNOWN_DOMAINS = (*STANDARD, "ai.onnx.ml", "com.microsoft", "org.openvinotoolkit")
"""Domains of operators that at least one engine has without user libraries."""

SHAPE_LEFT_OUT = "Field 'shape' of 'type' is required but missing"
"""The checker insists on shapes of outputs; exporters leave them out, and engines do without."""

_TENSORRT = (
    "is a compiled TensorRT engine, for one kind of GPU and one version of the library: give the ONNX file that it was "
    "made from; Sightline compiles it on the GPU and keeps the result"
)
_OPENVINO = "is OpenVINO IR: give the ONNX file that it was made from; OpenVINO runs that"
_KERAS = "is a Keras or TensorFlow file: convert it to ONNX (python -m tf2onnx.convert)"
_ENCRYPTED = (
    "is an encrypted model of TAO 4 or older: give the ONNX file that TAO 5 exports (`tao model NAME export`), or the "
    "ONNX version of the model from NGC"
)
_PYTORCH = "is a PyTorch file: export the model to ONNX (torch.onnx.export)"
KNOWN_SUFFIXES = {
    **dict.fromkeys((".engine", ".plan", ".trt"), _TENSORRT),
    **dict.fromkeys((".xml", ".bin"), _OPENVINO),
    **dict.fromkeys((".h5", ".keras", ".pb", ".tflite"), _KERAS),
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".safetensors"), _PYTORCH),
    **dict.fromkeys((".etlt", ".tlt"), _ENCRYPTED),
    ".mlmodel": "is a Core ML file: give the model that it was made from, as ONNX",
    ".param": "is an ncnn file: give the model that it was made from, as ONNX",
}
"""What a file that does not hold ONNX probably is, by the end of its name."""
KNOWN_BEGINNINGS = {
    b"PK\x03\x04": "looks like a PyTorch or zip archive: export the model to ONNX (torch.onnx.export)",
    b"\x80\x02": "looks like a Python pickle: export the model to ONNX (torch.onnx.export)",
    b"\x80\x04": "looks like a Python pickle: export the model to ONNX (torch.onnx.export)",
    b"version https://git-lfs": "is a Git LFS pointer, not the file itself: run 'git lfs pull'",
    b"ftrt": _TENSORRT,
    b"ptrt": _TENSORRT,
    b"\xff\xd8\xff": "is a JPEG image, not a model: give an ONNX file",
    b"\x89PNG": "is a PNG image, not a model: give an ONNX file",
    b"<?xml": "is XML (an OpenVINO IR?): give the ONNX file that it was made from",
    b"<!DOCTYPE": "is a web page: the download went wrong",
    b"<html": "is a web page: the download went wrong",
}


def read_model(model: str | Path | bytes) -> tuple[onnx.ModelProto, str]:
    """The parsed model, with its external data, and the name to use in messages.

    External data is read only from files inside the model's own folder. Raises :class:`ModelError`.
    """
    if isinstance(model, bytes):
        label = f"model of {len(model)} bytes"
        parsed = _parse(model, label=label)
        if next(_external_tensors(parsed), None) is not None:
            raise ModelError(f"{label}: keeps weights in other files; give the path of the model instead of its bytes")
        return _checked(parsed, label=label), label
    path = Path(model)
    label = _label(path)
    parsed = _parse(_read(path, label=label), label=label, suffix=path.suffix)
    _load_external(parsed, folder=path.parent, label=label)
    return _checked(parsed, label=label), label


def external_files(path: Path) -> tuple[Path, ...]:
    """The files in a model's folder that hold weights of it, sorted; mostly there are none. Raises ModelError."""
    label = _label(path)
    parsed = _parse(_read(path, label=label), label=label)
    root = path.parent.resolve()
    return tuple(sorted({_external_file(tensor, root=root, label=label) for tensor in _external_tensors(parsed)}))


def content_digest(parsed: onnx.ModelProto) -> str:
    """What tells a model, with all its weights, from every other: for the keys of caches."""
    return hashlib.sha256(parsed.SerializeToString(deterministic=True)).hexdigest()


def metadata_of(parsed: onnx.ModelProto) -> Mapping[str, str]:
    """The `metadata_props` of a model."""
    return MappingProxyType({entry.key: entry.value for entry in parsed.metadata_props})


def foreign_operators(parsed: onnx.ModelProto) -> list[str]:
    """Operators of the graph that no engine has, such as `org.example.Frobnicate`, in order of appearance."""
    own = {(function.domain, function.name) for function in parsed.functions}
    foreign = (
        f"{node.domain}.{node.op_type}"
        for node in parsed.graph.node
        if node.domain not in KNOWN_DOMAINS and (node.domain, node.op_type) not in own
    )
    return list(dict.fromkeys(foreign))


def _label(path: Path) -> str:
    return f"model {str(path)!r}"


def _read(path: Path, *, label: str) -> bytes:
    if is_folder(path):
        raise ModelError(f"{label}: is a folder; give an ONNX file")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"{label}: no such file") from None
    except OSError as error:
        raise ModelError(f"{label}: cannot be read: {error.strerror}") from error


def _parse(content: bytes, *, label: str, suffix: str = "") -> onnx.ModelProto:
    if not content:
        raise ModelError(f"{label}: is empty")
    for beginning, meaning in KNOWN_BEGINNINGS.items():
        if content.startswith(beginning):
            raise ModelError(f"{label}: {meaning}")
    parsed = onnx.ModelProto()
    try:
        parsed.ParseFromString(content)
    except DecodeError:
        parsed.Clear()
    if not parsed.graph.node or not parsed.opset_import:
        raise ModelError(f"{label}: {_meaning(content, suffix)}")
    _drop_inputs_with_values(parsed)
    _set_open_channels(parsed)
    return parsed


def _meaning(content: bytes, suffix: str) -> str:
    """Return what a file without a graph probably is."""
    if suffix.lower() in KNOWN_SUFFIXES:
        return KNOWN_SUFFIXES[suffix.lower()]
    if _is_text(content[:_LOOKED_AT_BYTES]):
        return "is not an ONNX file, but text: give the file of the model"
    return f"is not an ONNX file, or only a part of one ({len(content):,} bytes): was it copied or downloaded whole?"


def _is_text(content: bytes) -> bool:
    """Return whether bytes look like text: they have no control characters besides tabs and ends of lines."""
    return not any(byte < _SPACE and byte not in b"\t\n\r\f" for byte in content)


def _drop_inputs_with_values(parsed: onnx.ModelProto) -> None:
    """Files of ONNX's first versions list their weights among the inputs."""
    known = {tensor.name for tensor in parsed.graph.initializer}
    for entry in [entry for entry in parsed.graph.input if entry.name in known]:
        parsed.graph.input.remove(entry)
        parsed.ir_version = max(parsed.ir_version, 4)


def _set_open_channels(parsed: onnx.ModelProto) -> None:
    """Exporters of Hugging Face leave even the channels of images open, and call them so; their models take colours."""
    for entry in parsed.graph.input:
        sizes = entry.type.tensor_type.shape.dim
        if len(sizes) == 4 and sizes[1].dim_param in _OPEN_CHANNELS:
            sizes[1].dim_value = _CHANNELS


def _checked(parsed: onnx.ModelProto, *, label: str) -> onnx.ModelProto:
    if not parsed.graph.output:
        raise ModelError(f"{label}: has no outputs")
    if parsed.ByteSize() > LARGEST_BYTES:
        raise ModelError(f"{label}: is larger than 2 GB with its weights, which ONNX cannot hold in one piece")
    newest = onnx.defs.onnx_opset_version()
    for entry in parsed.opset_import:
        if entry.domain in STANDARD and entry.version > newest:
            raise ModelError(
                f"{label}: is written in opset {entry.version}, newer than what is installed here knows ({newest}): "
                f"export it with opset {newest} or lower, or upgrade onnx and the engine"
            )
    try:
        onnx.checker.check_model(parsed)
    except UnicodeDecodeError as error:
        # The checker's message quotes what it found.
        raise ModelError(f"{label}: is damaged: a name in it is not UTF-8 text") from error
    except onnx.checker.ValidationError as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
        if SHAPE_LEFT_OUT in reason:
            return parsed
        raise ModelError(f"{label}: is damaged or not supported: {reason.strip()}") from error
    return parsed


def _load_external(parsed: onnx.ModelProto, *, folder: Path, label: str) -> None:
    root = folder.resolve()
    for tensor in _external_tensors(parsed):
        file, entries = _external_file(tensor, root=root, label=label), _external_entries(tensor)
        end = int(entries.get("offset", 0)) + int(entries.get("length", 0))
        if end > file.stat().st_size:
            raise ModelError(f"{label}: {entries['location']!r} is too short: {tensor.name!r} ends at byte {end}")
        external_data_helper.load_external_data_for_tensor(tensor, str(root))
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]


def _external_file(tensor: TensorProto, *, root: Path, label: str) -> Path:
    """Where a tensor has its data; `root` is the model's folder."""
    location = _external_entries(tensor).get("location", "")
    file = (root / location).resolve()
    if not location or not file.is_relative_to(root):
        raise ModelError(f"{label}: tensor {tensor.name!r} has its data outside the model's folder: {location!r}")
    if not file.is_file():
        raise ModelError(f"{label}: tensor {tensor.name!r} has its data in {location!r}, which is missing")
    return file


def _external_entries(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _external_tensors(parsed: onnx.ModelProto) -> Iterator[TensorProto]:
    graphs = [parsed.graph]
    while graphs:
        graph = graphs.pop()
        attributes = [attribute for node in graph.node for attribute in node.attribute]
        for attribute in attributes:
            graphs.extend(nested for nested in (attribute.g, *attribute.graphs) if nested.node)
        tensors = [*graph.initializer, *(t for a in attributes for t in (a.t, *a.tensors))]
        yield from (tensor for tensor in tensors if tensor.data_location == TensorProto.EXTERNAL)
