"""An engine of worker threads, for libraries whose calls block: ONNX Runtime's sessions, servers elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sightline.errors import ModelError
from sightline_plugins.infer.engines.libraries import About
from sightline_plugins.infer.engines.protocol import Array, Pending, TensorSpec
from sightline_plugins.infer.engines.requests import QUEUED, Underway, Work, check_inputs

Outputs = tuple[Array, ...]


class PooledEngine:
    """Calls `run` (releasing the GIL, raising ModelError) in as many threads as pictures are computed at once.

    `release` is called once, after all work, when the engine is closed.
    """

    def __init__(
        self,
        name: str,
        *,
        run: Callable[[Outputs], Outputs],
        release: Callable[[], None],
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        about: About,
        concurrency: int,
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.metadata: Mapping[str, str] = about.metadata
        self.report: Mapping[str, Any] = about.report
        self.concurrency = concurrency
        self._label = about.label
        self._run = run
        self._release = release
        self._workers = ThreadPoolExecutor(concurrency, thread_name_prefix=name)
        self._underway = Underway()
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, inputs: Sequence[Array]) -> Pending:
        """See `Engine.submit`."""
        check_inputs(inputs, self.inputs, label=self._label)
        with self._lock:
            if self._closed:
                raise ModelError(f"{self._label}: the engine is closed")
            while len(self._underway) >= self.concurrency + QUEUED:
                self._underway.finish_oldest()
            work = Work(self._workers.submit(self._run, tuple(inputs)).result)
            self._underway.add(work)
        return work

    def close(self) -> None:
        """See `Engine.close`."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._underway.finish_all()
            self._workers.shutdown(wait=True)
            self._release()
            del self._run, self._release
