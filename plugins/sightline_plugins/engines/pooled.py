"""An engine of worker threads, for libraries whose calls block: ONNX Runtime's sessions, servers elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sightline_plugins.engines.libraries import About
from sightline_plugins.engines.protocol import Array, Pending, TensorSpec
from sightline_plugins.engines.requests import Arrays, Requests


class PooledEngine:
    """Calls `run` (releasing the GIL, raising ModelError) in as many threads as images are computed at once.

    `release` is called once, after all work, when the engine is closed.
    """

    def __init__(
        self,
        name: str,
        *,
        run: Callable[[Arrays], Arrays],
        release: Callable[[], None],
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        about: About,
        concurrency: int,
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.report: Mapping[str, Any] = about.report
        self.concurrency = concurrency
        self._run = run
        self._release = release
        self._workers = ThreadPoolExecutor(concurrency, thread_name_prefix=name)
        self._requests = Requests(inputs, concurrency=concurrency, label=about.label)

    def submit(self, inputs: Sequence[Array]) -> Pending:
        """See `Engine.submit`."""
        return self._requests.submit(inputs, start=lambda arrays: self._workers.submit(self._run, arrays).result)

    def close(self) -> None:
        """See `Engine.close`."""
        if self._requests.close():
            self._workers.shutdown(wait=True)
            self._release()
            del self._run, self._release
