"""Which frames of a running pipeline people get to see: live video, images and snapshots."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic_ns

from sightline.graph import PipelineDescription
from sightline.graph.hiding import branches_of, may_hide, shown_behind
from sightline.media import Batch
from sightline.pipeline import Pipeline

_LOG = logging.getLogger(__name__)
FrameTaker = Callable[[Batch, Sequence[int]], None]
"""Takes frames, with the monotonic time (nanoseconds) at which each arrived; quick, and called from any thread."""


class FramesShown:
    """Gives frames to those who show them: frames that have passed all steps of the main line; with `step`, those that
    leave that one.

    Where a step in a branch hides or changes something, the frames behind the last such step are shown instead: what is
    hidden from those who watch a branch is not to be seen here. Where steps hide different parts in different branches,
    no frame lacks them all, and none is shown. Steps may change while the pipeline runs.

    To be made before the pipeline starts. Raises ConfigurationError when there is no such step.
    """

    def __init__(self, pipeline: Pipeline, *, step: str | None) -> None:
        self._pipeline = pipeline
        self._step = step
        self._takers: list[FrameTaker] = []
        self._description: PipelineDescription | None = None
        self._point: str | None = None
        self._shows = True
        self._probed: set[str] = set()
        pipeline.on_batches(self._finish)
        self._look()

    def add(self, taker: FrameTaker) -> None:
        """Give frames to this one, too."""
        self._takers.append(taker)

    def _finish(self, batch: Batch, arrivals_ns: Sequence[int]) -> None:
        self._look()
        if self._point is None and self._shows:
            self._give(batch, arrivals_ns)

    def _leave(self, step: str, batch: Batch) -> None:
        if step != self._point:
            return
        try:
            self._give(batch, (monotonic_ns(),) * len(batch))
        except Exception:  # noqa: BLE001  to look must not stop the step that is looked at; logged with its traceback
            _LOG.exception("frames behind %r cannot be shown", step)

    def _give(self, batch: Batch, arrivals_ns: Sequence[int]) -> None:
        for take in self._takers:
            take(batch, arrivals_ns)

    def _look(self) -> None:
        """Choose where frames are taken, if the steps have changed."""
        description = self._pipeline.description
        if description is self._description:
            return
        point, self._shows = self._step, True
        if point is None:
            hiding = [name for name, element in description.elements() if may_hide(element)]
            branches = branches_of(description)
            last, apart = shown_behind(hiding, branches)
            if apart is not None:
                self._shows = False
                _LOG.warning(
                    "no frames are shown: %s and %s hide parts of them in different branches; choose one by --images",
                    last,
                    apart,
                )
            elif last is not None and branches[last]:
                point = last
        if point is not None and point not in self._probed:
            self._pipeline.probe(point, partial(self._leave, point))
            self._probed.add(point)
        self._point, self._description = point, description
