"""A library for engines that compute a model by calling a function, with one function for each thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx

from sightline.errors import ModelError
from sightline_plugins.engines.libraries import About
from sightline_plugins.engines.protocol import Array, Engine, TensorSpec
from sightline_plugins.engines.requests import Arrays, PooledEngine

Function = Callable[[Mapping[str, Array]], Sequence[Array]]
"""Computes the outputs of a model, in order, from its inputs by name. One thread calls it; it releases the GIL."""
Loader = Callable[[bytes], Function]
"""Makes a function of an ONNX file. Raises any exception for a model that it cannot compute."""


class FunctionLibrary:
    """A `Library` that computes with functions made by `load`; `version` is that of what computes.

    Nothing is compiled ahead: what the cache keeps is the rewritten ONNX file.
    """

    def __init__(self, name: str, *, version: str, load: Loader, concurrency: int) -> None:
        self.name = name
        self.settings: Mapping[str, Any] = MappingProxyType({"version": version, "device": "cpu"})
        self._load = load
        self._concurrency = concurrency

    def compile(self, content: bytes, *, label: str) -> bytes:
        """See `Library.compile`."""
        self._function(content, label=label)
        return content

    def dump(self, compiled: bytes, content: bytes) -> bytes:
        """See `Library.dump`."""
        del content
        return compiled

    def load(self, dumped: bytes, *, label: str) -> bytes:
        """See `Library.load`."""
        return self.compile(dumped, label=label)

    def open(self, compiled: bytes, *, about: About) -> Engine:
        """See `Library.open`."""
        free = deque(self._function(compiled, label=about.label) for _ in range(self._concurrency))
        graph = onnx.shape_inference.infer_shapes(onnx.ModelProto.FromString(compiled)).graph
        inputs = tuple(map(_spec, graph.input))

        def run(arrays: Arrays) -> Arrays:
            function = free.popleft()
            try:
                given = {spec.name: array for spec, array in zip(inputs, arrays, strict=True)}
                return tuple(np.array(output) for output in function(given))
            except Exception as error:
                raise ModelError(f"{about.label}: {self.name} failed: {error}") from error
            finally:
                free.append(function)

        return PooledEngine(
            self.name,
            run=run,
            release=free.clear,
            inputs=inputs,
            outputs=tuple(map(_spec, graph.output)),
            about=about,
            concurrency=self._concurrency,
        )

    def compute(self, model: onnx.ModelProto, feeds: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
        """See `Library.compute`."""
        function = self._function(model.SerializeToString(), label="model")
        try:
            return [[np.array(output) for output in function(one)] for one in feeds]
        except Exception as error:
            raise ModelError(f"{self.name} failed: {error}") from error

    def _function(self, content: bytes, *, label: str) -> Function:
        try:
            return self._load(content)
        except Exception as error:
            raise ModelError(f"{label}: {self.name} cannot use it: {error}") from error


def _spec(port: onnx.ValueInfoProto) -> TensorSpec:
    kind = port.type.tensor_type
    shape = tuple(size.dim_value if size.HasField("dim_value") else None for size in kind.shape.dim)
    return TensorSpec(port.name, shape, np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)))
