"""The contracts of engines: on host arrays, and on CUDA memory.

An engine takes arrays, one image at a time, and gives arrays back, asynchronously. It knows nothing about frames, boxes
or streams. `opening.open_engine` builds it from an ONNX file.

On the CPU every image is a request of its own (batch 1) that one thread computes from the first layer to the
last, and as many requests run at once as there are cores. Batching several images gains nothing there, and this
way the result of an image is the same to the last bit whatever else is under way, so results do not depend on
batch size, number of streams or timing.

Importing this module imports neither OpenVINO nor ONNX Runtime nor onnx.

The inputs are what the model was exported with, already normalised, in its own layout and element type: kernels write
them. Nothing crosses to the host, and nobody waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.errors import ModelError
from sightline.media.device_array import DeviceArray

__all__ = [
    "Array",
    "Engine",
    "ModelError",
    "Pending",
    "Precision",
    "TensorSpec",
    "never",
    "say_nothing",
]

Array: TypeAlias = npt.NDArray[Any]
Precision: TypeAlias = Literal["fp32", "bf16", "fp16", "int8"]
"""`fp32`: the types of the file. `bf16`: bfloat16, on CPUs. `fp16`: halves, on GPUs. `int8`: the types of the file,
which must hold Q/DQ."""
GPU_PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "int8")
"""What engines on a GPU compute."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, shape and element type of one input or output; ``None`` in the shape means: differs from call to call."""

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        shape = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name} {self.dtype.name} ({shape})"


class Pending(Protocol):
    """Work under way for one submitted image."""

    def result(self) -> tuple[Array, ...]:
        """The outputs, in the order of ``engine.outputs``.

        Blocks (without the GIL) until they are there; may be called from another thread than ``submit`` was, and
        again: it gives the same arrays. The arrays belong to the caller; the engine does not write to them as long as
        anybody refers to them, or to views of them.
        Raises :class:`ModelError` when the computation failed.
        """
        ...


class Engine(Protocol):
    """A model, ready to compute. One thread submits; the same or one other thread collects; then somebody closes."""

    @property
    def name(self) -> str:
        """``openvino``, ``onnxruntime`` or ``triton``."""
        ...

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What ``submit`` takes, after layout and normalisation have been folded in (batch 1)."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What ``Pending.result`` gives (batch 1)."""
        ...

    @property
    def report(self) -> Mapping[str, Any]:
        """What the run report says of it: ``engine``, ``model`` (``compiled`` or ``cached``), and ``batch`` where the
        model was exported for another number of images than one.
        """
        ...

    @property
    def concurrency(self) -> int:
        """How many images are computed at the same time; keep one or two more submitted to keep it busy."""
        ...

    def submit(self, inputs: Sequence[Array]) -> Pending:
        """Starts computing one image; returns at once, or as soon as one of the requests has become free.

        ``inputs`` are C-contiguous arrays of exactly the shapes and types in :attr:`inputs`. They are read in
        place: do not change them before ``result()`` has returned. Results that nobody collects block nothing.
        Raises :class:`ModelError` for a wrong count, shape or type, and after ``close()``.
        """
        ...

    def close(self) -> None:
        """Waits for what is under way, then frees the model. May be called again. Collected results stay valid."""
        ...


def say_nothing(text: str) -> None:
    """Ignore the message."""
    del text


def never() -> bool:
    """Return False: nobody stops the work."""
    return False


class Execution(Protocol):
    """A model bound to memory, for one number of images. It keeps that memory; its addresses never change."""

    @property
    def not_capturable(self) -> str | None:
        """Why a CUDA graph cannot hold it; None when it can."""
        ...

    def enqueue(self) -> None:
        """Queue it on the engine's stream, behind what makes its inputs. Raises ModelError or CudaError."""
        ...


class CudaEngine(Protocol):
    """A model on one GPU, ready to compute on the stream that it was opened with. One thread uses it."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What it takes. The first size is None where it takes any number of images up to `most_rows`."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What it gives, with the same first size; all other sizes are fixed."""
        ...

    @property
    def report(self) -> Mapping[str, Any]:
        """What the run report says of it: ``engine``, ``model`` (``compiled`` or ``cached``), ``batch`` and more."""
        ...

    @property
    def most_rows(self) -> int:
        """How many images it computes at once."""
        ...

    def bind(self, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray]) -> Execution:
        """The model on this memory: dense arrays of `inputs` and `outputs`, all of the same number of rows.

        Raises ModelError for other shapes or types, or when the library refuses.
        """
        ...

    def close(self) -> None:
        """Release the model. Its bindings may not be queued any more. A second call is harmless."""
        ...
