"""What `opening.py` asks of a library that computes models in this process, so that both are opened alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import onnx

from sightline_plugins.engines.protocol import Array, Engine

Compiled = TypeVar("Compiled")


@dataclass(frozen=True, slots=True)
class About:
    """What an engine has to know of its model besides the compiled graph.

    `label` names it in messages; `inputs` and `outputs` are the names that the file gives its tensors, in order.
    """

    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    report: Mapping[str, Any]

    @classmethod
    def of(cls, parsed: onnx.ModelProto, *, label: str) -> About:
        """What a model says of itself, with an empty report."""
        return cls(
            label=label,
            inputs=tuple(entry.name for entry in parsed.graph.input),
            outputs=tuple(entry.name for entry in parsed.graph.output),
            report=MappingProxyType({}),
        )


class Library(Protocol[Compiled]):
    """A library with the settings it is used with: device, threads, precision.

    `settings` names all of them, and the library's version: what was compiled with others is of no use.
    """

    @property
    def name(self) -> str:
        """What the library is called in options and reports."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """Version, device, threads, precision."""
        ...

    def compile(self, content: bytes, *, label: str) -> Compiled:
        """An ONNX model, ready to compute. Raises ModelError naming `label`."""
        ...

    def dump(self, compiled: Compiled, content: bytes) -> bytes:
        """What was compiled from `content`, in the form that `load` takes."""
        ...

    def load(self, dumped: bytes, *, label: str) -> Compiled:
        """What `dump` gave, compiled by the same library with the same settings. Raises ModelError."""
        ...

    def open(self, compiled: Compiled, *, about: About) -> Engine:
        """The engine that computes it, which owns it from now on."""
        ...

    def compute(self, model: onnx.ModelProto, feeds: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
        """The outputs for several sets of inputs, one after the other. Raises ModelError."""
        ...
