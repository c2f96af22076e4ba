"""`mot`: tracks as MOTChallenge text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

import numpy as np

from sightline.graph import CheckContext, Element, OutputPath, Problem, Site
from sightline.media import Batch, Stream
from sightline_plugins.sinks.files import STANDARD_OUTPUT, LineSink, path_problems
from sightline_plugins.sinks.records import BOX_STEPS, CONFIDENCE_STEPS, frame_bounds, left_top_size, rounded


class Mot(Element):
    """Write MOTChallenge text for scoring trackers: `frame,id,left,top,width,height,confidence,-1,-1,-1`.

    Frames count from 1, and boxes are in pixels. There are no labels: filter by class before this step if classes
    matter. Objects without a track would count as false positives, so they are left out if there are tracks. If there
    are none at all, all objects are written with the id -1, like detections.

    ```yaml
    - mot: {path: "out/{stream}.txt"}
    ```
    """

    name: ClassVar[str] = "mot"
    sink: ClassVar[bool] = True
    results_only: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"

    path: OutputPath
    """File to write, one for each stream: `{stream}` stands for the stream's name."""
    untracked: Literal["auto", "keep", "drop"] = "auto"
    """Objects without a track: `keep` or `drop` them. `auto` keeps them until the stream's first track appears, and
    then takes them back."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Check that each stream has its own file, and that it can be written."""
        if self.path == STANDARD_OUTPUT and self.untracked == "auto":
            yield Problem("standard output cannot be taken back: say untracked: keep or drop", ("untracked",))
        yield from path_problems(self, self.path, context=context, shareable=False)

    def build(self, site: Site) -> MotWriter:
        """Make the writer; files are opened at their first frame."""
        return MotWriter(self, site)


class MotWriter(LineSink):
    """Writes a line for each object."""

    def __init__(self, element: Mot, site: Site) -> None:
        super().__init__(element, element.path, site=site)
        self._untracked = element.untracked
        self._tracked: set[Stream] = set()

    def consume(self, batch: Batch) -> None:
        """Write the lines of the batch."""
        if self._untracked == "auto":
            self._restart_tracked(batch)
        self.write(batch, self._lines(batch))

    def end_stream(self, stream: Stream) -> None:
        """Close the stream's file."""
        self._tracked.discard(stream)
        super().end_stream(stream)

    def _restart_tracked(self, batch: Batch) -> None:
        """Restart the file of a stream when its first track appears."""
        for row in np.unique(batch.objects.frame[batch.objects.track_id >= 0]).tolist():
            stream = batch.frames[row].stream
            if stream not in self._tracked:
                self._tracked.add(stream)
                self.restart(stream)

    def _lines(self, batch: Batch) -> list[bytes]:
        objects = batch.objects
        boxes = rounded(left_top_size(objects), steps=BOX_STEPS)
        confidences = rounded(objects.confidence, steps=CONFIDENCE_STEPS)
        bounds, ids = frame_bounds(batch), objects.track_id.tolist()
        lines = []
        for row, frame in enumerate(batch.frames):
            keeps = self._untracked == "keep" or (self._untracked == "auto" and frame.stream not in self._tracked)
            lines.append(
                "".join(
                    f"{frame.index + 1},{ids[item]},{left},{top},{width},{height},{confidences[item]},-1,-1,-1\n"
                    for item in range(bounds[row], bounds[row + 1])
                    if keeps or ids[item] >= 0
                    for left, top, width, height in (boxes[item],)
                ).encode()
            )
        return lines
