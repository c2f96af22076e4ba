"""From an ONNX file to a running engine: read, checked, rewritten, compiled."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

import onnx

from sightline.errors import ConfigurationError, DeviceUnavailable, ModelError
from sightline_plugins.infer.engines.model_file import read_model
from sightline_plugins.infer.engines.protocol import Engine, EngineName, ImageForm
from sightline_plugins.infer.engines.simplify import clean, simplify
from sightline_plugins.infer.engines.simplify.inputs import fix_batch, fix_size, take_image

Installed = Literal["openvino", "onnxruntime"]
PREFERENCE: tuple[Installed, ...] = ("openvino", "onnxruntime")


def open_on_cpu(
    model: str | Path | bytes,
    *,
    engine: EngineName,
    device: str,
    image: ImageForm | None,
    concurrency: int | None,
    optimize: bool,
) -> Engine:
    """See `open_engine`."""
    if device not in ("cpu", "auto"):
        raise DeviceUnavailable(f"the engines openvino and onnxruntime run on the device 'cpu', not on {device!r}")
    chosen = choose(engine)
    parsed, label = read_model(model)
    metadata = MappingProxyType({entry.key: entry.value for entry in parsed.metadata_props})
    prepared = prepare(parsed, engine=chosen, image=image, optimize=optimize, label=label)
    content, count = prepared.SerializeToString(), concurrency or available_cores()
    if chosen == "openvino":
        from sightline_plugins.infer.engines.openvino import OpenVinoEngine

        return OpenVinoEngine(content, label=label, metadata=metadata, concurrency=count)
    from sightline_plugins.infer.engines.onnxruntime import OnnxRuntimeEngine

    return OnnxRuntimeEngine(content, label=label, metadata=metadata, concurrency=count)


def prepare(
    parsed: onnx.ModelProto, *, engine: Installed, image: ImageForm | None, optimize: bool, label: str
) -> onnx.ModelProto:
    """The model at batch 1, rewritten for `engine`, taking pictures in the form `image`. `parsed` may change."""
    try:
        fix_batch(parsed)
        if image is not None and image.size_wh is not None:
            fix_size(parsed, image.size_wh)
        prepared = simplify(parsed, engine=engine) if optimize else parsed
        return prepared if image is None else clean(take_image(prepared, image))
    except (ModelError, onnx.shape_inference.InferenceError) as error:
        raise ModelError(f"{label}: {error}") from error


def choose(engine: EngineName) -> Installed:
    """The engine to use; `ConfigurationError` names what to install or to write."""
    if engine not in get_args(EngineName):
        raise ConfigurationError(f"there is no engine {engine!r}; choose one of {', '.join(get_args(EngineName))}")
    wanted = PREFERENCE if engine == "auto" else (engine,)
    for name in wanted:
        if importlib.util.find_spec(name) is not None:
            return name
    needed = " or ".join(wanted)
    raise ConfigurationError(f"running a model needs {needed}, which is not installed: pip install {wanted[0]}")


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
