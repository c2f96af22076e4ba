"""What an engine on a GPU is: it computes batches that lie in the GPU's memory, in the order of one stream.

The inputs are what the model was exported with, already normalised, in its own layout and element type: kernels write
them. Nothing crosses to the host, and nobody waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sightline.media.device_array import DeviceArray
from sightline_plugins.engines.protocol import TensorSpec

MOST_ROWS = 32
"""Images that are computed at once where a model takes any number, unless its engine is told otherwise."""


class Execution(Protocol):
    """A model bound to memory, for one number of images. It keeps that memory; its addresses never change."""

    @property
    def not_capturable(self) -> str | None:
        """Why a CUDA graph cannot hold it; None when it can."""
        ...

    def enqueue(self) -> None:
        """Queue it on the engine's stream, behind what makes its inputs. Raises ModelError or GpuError."""
        ...


class DeviceEngine(Protocol):
    """A model on one GPU, ready to compute on one stream, which is told when it is opened. One thread uses it."""

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
        """What the run report says of it: ``engine``, ``model`` (``compiled`` or ``cached``) and more."""
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
        """Let go of the model. What it bound may not be queued any more. May be called again."""
        ...
