"""A model that serves while a faster form of it is made, and gives way to that between two batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from sightline.errors import SightlineError
from sightline_plugins.infer.looks.look import Look, Predictor, Seen


class UpgradingPredictor:
    """A `Predictor` that is `serving` until `make` has returned a better one, in a thread of this class.

    What `make` raises is told to `warn`, and the first one serves on. `stop` lets `make` end soon.
    """

    def __init__(
        self,
        serving: Predictor,
        *,
        make: Callable[[], Predictor],
        stop: Callable[[], None],
        ready: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self._serving = serving
        self._stop = stop
        self._ready = ready
        self._warn = warn
        self._looks = 0
        self._told: dict[str, Any] = {"served_before": serving.report.get("engine")}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compiling a model")
        self._made: Future[Predictor] | None = self._thread.submit(make)

    @property
    def device(self) -> str:
        """See `Predictor.device`."""
        return self._serving.device

    @property
    def report(self) -> Mapping[str, Any]:
        """That of the one which serves now, and how many looks the first one served."""
        return {**self._serving.report, **self._told, "looks_before": self._looks}

    @property
    def most_unread(self) -> int:
        """See `Predictor.most_unread`."""
        return self._serving.most_unread

    def look_all(self, seen: Sequence[Seen]) -> Iterator[Look | None]:
        """See `Predictor.look_all`."""
        made = self._made
        if made is not None and made.done():
            self._made = None
            self._thread.shutdown()
            self._change(made)
        if self._made is not None:
            self._looks += len(seen)
        return self._serving.look_all(seen)

    def wait_for_making(self, limit_seconds: float) -> bool:
        """Wait until the better one is made, or can not be; whether that is so."""
        return self._made is None or not wait([self._made], timeout=limit_seconds).not_done

    def close(self) -> None:
        """See `Predictor.close`; lets the making end."""
        made, self._made = self._made, None
        if made is not None:
            self._stop()
            self._thread.shutdown()
            if made.exception() is None:
                made.result().close()
        self._serving.close()

    def _change(self, made: Future[Predictor]) -> None:
        """Let the better one serve. What the first one has under way is finished, and can still be read."""
        try:
            better = made.result()
        except SightlineError as error:
            self._warn(f"it goes on with {self._told['served_before']}: {error}")
            return
        self._serving.close()
        self._serving = better
        self._ready()
