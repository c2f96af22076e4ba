"""Live video: which frames viewers see, and who makes the images of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from importlib.metadata import entry_points
from time import monotonic_ns
from typing import Protocol

from starlette.websockets import WebSocket

from sightline.graph import Element, PipelineDescription
from sightline.media import Batch
from sightline.pipeline import Pipeline

LIVE_VIDEO = "sightline.live"
"""Entry points of live video: `video` = module:function, which takes a pipeline's packets and returns a `LiveVideo`."""


class LiveVideo(Protocol):
    """Shows the streams of a pipeline to viewers; it costs nothing while there are none."""

    def take(self, batch: Batch, arrivals_ns: Sequence[int]) -> None:
        """Take frames, with the monotonic time at which each arrived. From the pipeline's threads; never waits."""
        ...

    async def watch(self, socket: WebSocket, stream: str, plays: Collection[str]) -> None:
        """Play a stream to a viewer, until either side goes away; `plays` are the codecs that its browser decodes."""
        ...

    def close(self) -> None:
        """End all connections. In the event loop; it waits for nothing."""
        ...


def live_video(pipeline: Pipeline, *, step: str | None) -> LiveVideo | None:
    """Make the live video of a pipeline that has not been started; None when no package offers it.

    It shows what has passed all steps; with `step`, what leaves that one.
    """
    found = entry_points(group=LIVE_VIDEO, name="video")
    if not found:
        return None
    live: LiveVideo = next(iter(found)).load()(pipeline.packets)
    _Tap(pipeline, live, step=step).open()
    return live


class _Tap:
    """Gives frames to live video: those that have passed all steps of the main line.

    Where a step in a branch hides something, the frames behind that step are shown instead, so that what is hidden from
    some is hidden here: main line and branches do not know of each other. Steps may change while the pipeline runs.
    """

    def __init__(self, pipeline: Pipeline, live: LiveVideo, *, step: str | None) -> None:
        self._pipeline = pipeline
        self._live = live
        self._step = step
        self._description: PipelineDescription | None = None
        self._point: str | None = None
        self._probed: set[str] = set()

    def open(self) -> None:
        """Begin. Raises ConfigurationError when there is no such step."""
        self._pipeline.on_batches(self._finish)
        self._look()

    def _finish(self, batch: Batch, arrivals_ns: Sequence[int]) -> None:
        self._look()
        if self._point is None:
            self._live.take(batch, arrivals_ns)

    def _leave(self, step: str, batch: Batch) -> None:
        if step == self._point:
            self._live.take(batch, (monotonic_ns(),) * len(batch))

    def _look(self) -> None:
        """Choose where frames are taken, if the steps have changed."""
        description = self._pipeline.description
        if description is self._description:
            return
        point = self._step or next(iter(reversed(list(hiding_in_branches(description)))), None)
        if point is not None and point not in self._probed:
            self._pipeline.probe(point, partial(self._leave, point))
            self._probed.add(point)
        self._point, self._description = point, description


def hiding_in_branches(description: PipelineDescription) -> Iterator[str]:
    """Yield the ids of the steps in branches that change images, and do not only draw."""
    main_line = {id(step) for step in description.steps if isinstance(step, Element)}
    for name, element in description.elements():
        if id(element) not in main_line and element.changes_images and not element.draws_only:
            yield name
