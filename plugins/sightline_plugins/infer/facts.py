"""Inputs, outputs and metadata of a model file, read without loading an engine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Literal, cast

import msgspec
import numpy as np

from sightline.cache import kept
from sightline.errors import MissingExtra, ModelError
from sightline_plugins.engines.address import Address, address_of
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.preprocess.stacks import StackOrder

_FORMAT = 2
"""Changes when other facts are read from files, so that those kept before are not used."""

SizeWh = tuple[int, int]
Extra = Literal["size_wh", "size_hw", "scale"]

MAX_SIDE = 8192
"""Images that a network takes have at most this many pixels a side."""
_EXTRAS: Mapping[str, Extra] = MappingProxyType(
    {"im_shape": "size_hw", "image_shape": "size_hw", "scale_factor": "scale"}
)
_STACKS: tuple[StackOrder, ...] = ("cthw", "tchw", "thwc")
_ORDERS = {4: ("chw", "hwc"), 5: _STACKS}


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Inputs and outputs as the file declares them, and its `metadata_props`.

    A file that was exported for a batch of images is described for one, because that is how engines take images.
    `output_ops` are the operators that make the outputs (`Softmax`, `Gemm`), behind those that only reshape. `weights`
    are names of files in the model's folder that hold weights.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    metadata: Mapping[str, str]
    output_ops: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StackInput:
    """A stack of images as input: the order of the axes behind the batch, and how many images (None: any number)."""

    order: StackOrder
    frames: int | None


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """Where a model takes its image, at which size, and its other inputs.

    `width` and `height` are None where the model leaves them open. `extras` are inputs (1, 2) by place: the size of the
    image as width and height (`orig_target_sizes`) or as height and width (`im_shape`), or its scale. `stack` is set
    for models that take several images of one stream at once, `channels_last` for images of interleaved channels.
    """

    image: int
    width: int | None
    height: int | None
    channels: int
    extras: Mapping[int, Extra]
    stack: StackInput | None = None
    channels_last: bool = False

    def extra_values(self, size_wh: SizeWh) -> dict[int, tuple[int, int]]:
        """Return the values of the extras by place, in order, for an image that fills `size_wh` of the input."""
        values = {"size_wh": size_wh, "size_hw": size_wh[::-1], "scale": (1, 1)}
        return {place: values[kind] for place, kind in sorted(self.extras.items())}


def read_facts(path: Path | str) -> ModelFacts:
    """Return the facts of an ONNX file, or of a served model, whose server is asked.

    Raises ModelError when the file is missing, damaged or no ONNX file, and when no server answers.
    """
    address = address_of(path)
    if address is not None:
        return _served_facts(address)
    return _file_facts(Path(path), _stamp(Path(path)))


def find_inputs(specs: tuple[TensorSpec, ...]) -> ModelInputs:
    """Return what to feed where. Raises ModelError unless there is one image (or stack), with or without its size."""
    images = [number for number, spec in enumerate(specs) if _axes(spec) is not None]
    extras: dict[int, Extra] = {
        number: _EXTRAS.get(spec.name, "size_wh")
        for number, spec in enumerate(specs)
        if len(spec.shape) == 2 and spec.shape[1] == 2
    }
    if images and max(size or 0 for size in specs[images[0]].shape[1:]) > MAX_SIDE:
        raise ModelError(f"takes images larger than {MAX_SIDE} pixels a side: {specs[images[0]]}")
    if len(images) != 1 or len(images) + len(extras) != len(specs):
        raise ModelError(
            "a model takes one image of 3 channels or 1, (1, channels, height, width) or (1, height, width, "
            "channels), or a stack of them, (1, channels, frames, height, width) or (1, frames, channels, height, "
            f"width), and the image's size (1, 2) where it wants it; this model takes {'; '.join(map(str, specs))}"
        )
    shape, axes = specs[images[0]].shape, _axes(specs[images[0]]) or ""
    sizes = {axis: shape[1 + axes.index(axis)] for axis in axes}
    order = next((order for order in _STACKS if order == axes), None)
    stack = None if order is None else StackInput(order, sizes["t"])
    return ModelInputs(images[0], sizes["w"], sizes["h"], sizes["c"] or 3, extras, stack, axes.endswith("c"))


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is written again."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@lru_cache(maxsize=16)
def _file_facts(path: Path, stamp: tuple[int, ...]) -> ModelFacts:
    """Return the facts of a file, which is read once for all elements that use it, and not again while it is the same.

    The facts are kept in the cache folder by the content of the file, because parsing and checking an ONNX file takes
    longer than all the rest of `sightline check`.
    """
    del stamp

    def make() -> ModelFacts:
        from sightline_plugins.infer.onnx_facts import read_file

        return read_file(path)

    def read(content: bytes) -> ModelFacts | None:
        with suppress(msgspec.DecodeError, TypeError):
            facts = msgspec.json.decode(content, type=ModelFacts, dec_hook=lambda _, name: np.dtype(name))
            if all((path.parent / name).is_file() for name in facts.weights):
                return facts
        return None

    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return make()  # which explains what is wrong
    name = f"facts/{digest}-{_FORMAT}-onnx{version('onnx')}.json"
    return kept(name, read=read, make=make, write=lambda facts: msgspec.json.encode(facts, enc_hook=_encoded))


def _encoded(value: object) -> object:
    return value.name if isinstance(value, np.dtype) else dict(cast("Mapping[str, str]", value))


def _served_facts(address: Address) -> ModelFacts:
    try:
        from sightline_plugins.engines.triton import describe
    except ModuleNotFoundError as error:
        missing = MissingExtra("tritonclient", extra="triton", purpose="a served model")
        raise ModelError(f"model {str(address)!r}: {missing}") from error
    return facts_of(*describe(address), f"model {str(address)!r}", metadata={})


def facts_of(
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    label: str,
    *,
    metadata: Mapping[str, str],
    output_ops: tuple[str, ...] = (),
    weights: tuple[str, ...] = (),
) -> ModelFacts:
    """Return the facts of a model for one image, whatever the batch size that it was exported for."""
    image_inputs = (spec for spec in inputs if len(spec.shape) == 4 and _axes(spec) is not None)
    batch_size = next((spec.shape[0] for spec in image_inputs), None) or 1
    if batch_size == 1:
        return ModelFacts(inputs, outputs, metadata, output_ops, weights)
    for spec in (*inputs, *outputs):
        if spec.shape[:1] not in ((batch_size,), (None,)):
            raise ModelError(
                f"{label}: takes {batch_size} images at once, but {spec} does not have {batch_size} rows, one an "
                "image: export it with batch 1 or dynamic"
            )

    def one(specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        return tuple(replace(spec, shape=(1, *spec.shape[1:])) for spec in specs)

    return ModelFacts(one(inputs), one(outputs), metadata, output_ops, weights)


def _axes(spec: TensorSpec) -> str | None:
    """Return the order of the axes behind the batch of an input for images; None for other inputs."""
    if len(spec.shape) == 5 and spec.shape[0] not in (1, None):
        return None
    orders = _ORDERS.get(len(spec.shape), ())
    return next((order for order in orders if spec.shape[1 + order.index("c")] in (1, 3)), None)
