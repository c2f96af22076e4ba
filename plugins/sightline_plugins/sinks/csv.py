"""`csv`: one row for each object."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from sightline.graph import CheckContext, Element, OutputPath, Problem, Sink, Site
from sightline.media import Batch, Stream
from sightline_plugins.sinks.files import StreamFiles, path_problems, write_by_frame
from sightline_plugins.sinks.records import BOX_STEPS, CONFIDENCE_STEPS, frame_bounds, rounded

COLUMNS = (
    "stream",
    "frame",
    "pts_seconds",
    "label",
    "class_id",
    "confidence",
    "left",
    "top",
    "right",
    "bottom",
    "track_id",
)
HEADER = (",".join(COLUMNS) + "\n").encode()


class Csv(Element):
    """Write a table of all objects: one row for each object of each frame, under a header.

    Columns are `stream`, `frame` (from 0), `pts_seconds`, `label`, `class_id`, `confidence`, `left`, `top`, `right`,
    `bottom` (pixels) and `track_id` (empty for none). A frame without objects has no row, and events and attributes are
    not in it: `jsonl` holds everything. Rows are in the file as soon as their batch is done.

    ```yaml
    - csv: {path: "out/{stream}.csv"}
    ```
    """

    name: ClassVar[str] = "csv"
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"

    path: OutputPath
    """File to write; `{stream}` stands for the stream's name, and `-` alone for standard output."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """The file can be written."""
        return path_problems(self, self.path, context=context, shareable=True)

    def build(self, site: Site) -> CsvWriter:
        """Make the writer; files are opened at their first frame."""
        return CsvWriter(StreamFiles(site.outputs, self.path, header=HEADER))


class CsvWriter(Sink):
    """Writes a row for each object."""

    def __init__(self, files: StreamFiles) -> None:
        self._files = files

    def consume(self, batch: Batch) -> None:
        """Write the rows of the batch, those of one file in one go."""
        write_by_frame(self._files, batch, _rows(batch))

    def end_stream(self, stream: Stream) -> None:
        """Close the stream's own file."""
        self._files.end_stream(stream)

    def close(self) -> None:
        """Close all files."""
        self._files.close()


def _rows(batch: Batch) -> list[bytes]:
    """The rows of each frame of a batch."""
    objects = batch.objects
    fields = list(
        zip(
            objects.labels(),
            objects.class_id.tolist(),
            rounded(objects.confidence, steps=CONFIDENCE_STEPS),
            *rounded(np.ascontiguousarray(objects.xyxy.T), steps=BOX_STEPS),
            ["" if number < 0 else number for number in objects.track_id.tolist()],
            strict=True,
        )
    )
    bounds = frame_bounds(batch)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = []
    for row, frame in enumerate(batch.frames):
        writer.writerows(
            (frame.stream.name, frame.index, frame.pts_seconds, *own) for own in fields[bounds[row] : bounds[row + 1]]
        )
        rows.append(text.getvalue().encode())
        text.seek(0)
        text.truncate()
    return rows
