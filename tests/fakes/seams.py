"""Let fakes take the place of libraries, GPU by GPU: production code has no hook for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from sightline.devices.cuda.device import CudaDevice


class Seam:
    """A function of a module whose first argument is a GPU: it gives the fake of that GPU where there is one.

    It is replaced when the fakes are imported, before the modules that import it by name.
    """

    def __init__(self, module: ModuleType, name: str) -> None:
        self._fakes: WeakKeyDictionary[CudaDevice, Callable[..., Any]] = WeakKeyDictionary()
        original = getattr(module, name)

        @wraps(original)
        def dispatched(gpu: CudaDevice, *arguments: Any) -> Any:
            return self._fakes.get(gpu, original)(gpu, *arguments)

        setattr(module, name, dispatched)

    def install(self, gpu: CudaDevice, fake: Callable[..., Any]) -> None:
        """Call `fake` instead of the function, for this GPU."""
        self._fakes[gpu] = fake
