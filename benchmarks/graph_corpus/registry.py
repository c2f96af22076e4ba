"""The graphs written by hand: their names, whose manner they follow, and the operator set they are written in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import onnx

from benchmarks.graph_corpus.builder import Builder, Listed

Write = Callable[[Builder], None]


@dataclass(frozen=True, slots=True)
class Structure:
    """One graph written by hand. `family`: whose networks look like this."""

    name: str
    family: str
    write: Write
    opset: int
    listed: Listed
    constants: bool

    def model(self) -> onnx.ModelProto:
        """Return a new model with the same random weights at every call."""
        builder = Builder(self.opset, listed=self.listed, constants=self.constants)
        self.write(builder)
        about = {"architecture": self.name, "family": f"{self.family}, by hand", "exporter": self.exporter}
        return builder.model(properties=about)

    @property
    def exporter(self) -> str:
        """The settings of the exporter that writes such graphs."""
        weights = {"none": "", "some": ", IR 3 (some weights are inputs)", "all": ", IR 3"}[self.listed]
        return f"opset {self.opset}{weights}" + (", weights as Constant nodes" if self.constants else "")


_STRUCTURES: dict[str, Structure] = {}


def structures() -> dict[str, Structure]:
    """Return all graphs written by hand, by name."""
    for module in ("backbones", "heads"):
        import_module(f"benchmarks.graph_corpus.{module}")
    return _STRUCTURES


def structure(
    name: str, family: str, *, opset: int = 13, listed: Listed = "none", constants: bool = False
) -> Callable[[Write], Write]:
    """Register a function that writes a graph; stack it for the same graph in other settings."""

    def registered(write: Write) -> Write:
        _STRUCTURES[name] = Structure(name, family, write, opset, listed, constants)
        return write

    return registered
