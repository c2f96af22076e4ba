"""`kitti`: objects as KITTI labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from sightline.graph import CheckContext, Element, OutputPath, Outputs, Problem, Sink, Site
from sightline.media import Batch
from sightline_plugins.sinks.files import STANDARD_OUTPUT, STREAM, LineSink, path_problems
from sightline_plugins.sinks.records import BOX_STEPS, CONFIDENCE_STEPS, frame_bounds, rounded

FRAME = "{frame}"
_UNKNOWN_BEFORE = "-1 -1 -10"
"""Truncated, occluded, alpha: the values of KITTI's development kit for unknown ones."""
_UNKNOWN_AFTER = "-1 -1 -1 -1000 -1000 -1000 -10"
"""Height, width, length, x, y, z, rotation in space."""


class Kitti(Element):
    """Write KITTI labels, in the format of its tracking or its object benchmark.

    `tracking`: one file per stream, with lines `frame track label -1 -1 -10 left top right bottom -1 -1 -1 -1000 -1000
    -1000 -10 score`; frames count from 0, and objects without a track have -1. `detection`: one file per frame, with
    the same lines without frame and track; `{frame}` in the path is the frame index in six digits, and frames without
    objects get an empty file. 3D values are unknown and have the values that KITTI's development kit uses for that. A
    space in a label becomes an underscore.

    ```yaml
    - kitti: {path: "out/{stream}/{frame}.txt", layout: detection}
    ```
    """

    name: ClassVar[str] = "kitti"
    sink: ClassVar[bool] = True
    results_only: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"

    path: OutputPath
    """File to write; `{stream}` stands for the stream's name, `{frame}` (layout `detection`) for the frame's number."""
    layout: Literal["tracking", "detection"] = "tracking"
    """Which benchmark's files are written."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Check that files can be written: one per stream, or with layout `detection` one per frame."""
        if self.layout == "detection" and FRAME not in self.path:
            yield Problem("layout detection has a file for each frame: put {frame} into the path", ("path",))
        if self.layout == "tracking" and FRAME in self.path:
            yield Problem("layout tracking has one file for all frames: {frame} cannot be in the path", ("path",))
        if self.path == STANDARD_OUTPUT:
            yield Problem("kitti writes files: standard output cannot take them", ("path",))
        yield from path_problems(self, self.path, context=context, shareable=False, known=(STREAM, FRAME))

    def build(self, site: Site) -> KittiTracks | KittiFrames:
        """Make the writer of the layout asked for."""
        if self.layout == "tracking":
            return KittiTracks(self, self.path, site=site)
        return KittiFrames(site.outputs, self.path)


class KittiTracks(LineSink):
    """Writes one file for each stream."""

    def consume(self, batch: Batch) -> None:
        """Write the lines of the batch."""
        labels, ids, bounds = _labels(batch), batch.objects.track_id.tolist(), frame_bounds(batch)
        lines = [
            "".join(
                f"{frame.index} {ids[item]} {labels[item]}\n" for item in range(bounds[row], bounds[row + 1])
            ).encode()
            for row, frame in enumerate(batch.frames)
        ]
        self.write(batch, lines)


class KittiFrames(Sink):
    """Writes one file for each frame."""

    def __init__(self, outputs: Outputs, template: str) -> None:
        self._outputs = outputs
        self._template = template

    def consume(self, batch: Batch) -> None:
        """Write the file of each frame."""
        labels, bounds = _labels(batch), frame_bounds(batch)
        for row, frame in enumerate(batch.frames):
            template = self._template.replace(FRAME, f"{frame.index:06d}")
            file = self._outputs.open_lines(self._outputs.path(template, stream=frame.stream.name))
            file.write("".join(f"{label}\n" for label in labels[bounds[row] : bounds[row + 1]]).encode())
            file.close()


def _labels(batch: Batch) -> list[str]:
    """Each object as the fields from the label on."""
    objects = batch.objects
    boxes = rounded(objects.xyxy, steps=BOX_STEPS)
    confidences = rounded(objects.confidence, steps=CONFIDENCE_STEPS)
    return [
        f"{'_'.join(label.split())} {_UNKNOWN_BEFORE} {left} {top} {right} {bottom} {_UNKNOWN_AFTER} {confidence}"
        for label, (left, top, right, bottom), confidence in zip(objects.labels(), boxes, confidences, strict=True)
    ]
