"""Kernels that TensorRT-RTX compiled on a GPU for a plan: shared by its contexts, and kept between runs.

A plan of TensorRT-RTX is finished on the GPU, when a context is made and when it computes a number of images for the
first time. Each of these takes seconds, unless the kernels are there already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sightline_plugins.engines.cache import Entry, ModelCache


class KeptKernels:
    """Where the kernels of one plan are kept, under a key of their own."""

    def __init__(self, cache: ModelCache, key: Mapping[str, Any]) -> None:
        self._cache = cache
        self._key = {"kernels of": key}
        self._known: bytes | None = None

    def read(self) -> bytes | None:
        """What was kept; None when nothing was. The library finds out whether it is of use."""
        entry = self._cache.find(self._key)
        self._known = None if entry is None else entry.content
        return self._known

    def keep(self, content: bytes) -> None:
        """Keep them, if they are others than before."""
        if content and content != self._known:
            self._cache.keep(self._key, Entry(content, {}))
            self._known = content
