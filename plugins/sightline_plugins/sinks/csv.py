"""`csv`: one row for each object."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from sightline.graph import CheckContext, Element, OutputPath, Problem, Site
from sightline.media import Batch
from sightline_plugins.sinks.compression import Compression
from sightline_plugins.sinks.files import STREAM, LineSink, path_problems
from sightline_plugins.sinks.records import BOX_STEPS, CONFIDENCE_STEPS, attributes_of, frame_bounds, rounded
from sightline_plugins.sinks.retention import Keep
from sightline_plugins.sinks.rotation import PLACEHOLDERS, Rotate, rotation_problems

COLUMNS = (
    *("stream", "frame", "pts_seconds", "label", "class_id", "confidence"),
    *("left", "top", "right", "bottom", "track_id"),
)


class Csv(Element):
    """Write a table of all objects: one row per object and frame, under a header.

    Columns are `stream`, `frame` (from 0), `pts_seconds`, `label`, `class_id`, `confidence`, `left`, `top`, `right`,
    `bottom` (pixels) and `track_id` (empty for none), then one column for each of the `attributes`; several values of
    one are joined with `;`. A frame without objects has no row. Events, keypoints and masks are not included: `jsonl`
    holds everything. Rows are in the file as soon as their batch is done. With `on_error: skip` a full disk costs rows
    and not the run, as with `jsonl`. `rotate`, `compress` and `keep` work as there; each file has its header.

    ```yaml
    - csv: {path: "out/{stream}.csv", attributes: [color, plate]}
    - csv: {path: "out/{date}/{stream}.csv", rotate: {every: 1d}, compress: zstd, keep: {age: 30d}}
    ```
    """

    name: ClassVar[str] = "csv"
    sink: ClassVar[bool] = True
    results_only: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"

    path: OutputPath
    """File to write; `{stream}` stands for the stream's name, and `-` alone for standard output."""
    rotate: Rotate | None = None
    """When the next file begins; never when not given."""
    compress: Compression | None = None
    """How finished files are compressed; not at all when not given."""
    keep: Keep | None = None
    """What is kept of finished files; all when not given."""
    attributes: tuple[str, ...] = ()
    """Attributes that get a column, by name, in this order."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Check that the file can be written, how it is rotated, and that column names are unique."""
        names = (*COLUMNS, *self.attributes)
        for number, name in enumerate(self.attributes):
            if name in names[: len(COLUMNS) + number]:
                yield Problem(f"there is a column {name!r} already: leave this one out", ("attributes", number))
        known = (STREAM,) if self.rotate is None else (STREAM, *PLACEHOLDERS)
        yield from rotation_problems(self.path, rotate=self.rotate, compress=self.compress, keep=self.keep)
        yield from path_problems(self, self.path, context=context, shareable=True, known=known)

    def build(self, site: Site) -> CsvWriter:
        """Make the writer; files are opened at their first frame."""
        return CsvWriter(self, site)


class CsvWriter(LineSink):
    """Writes a row for each object."""

    def __init__(self, element: Csv, site: Site) -> None:
        super().__init__(
            element,
            element.path,
            site=site,
            header=_text([(*COLUMNS, *element.attributes)]),
            rotate=element.rotate,
            compress=element.compress,
            keep=element.keep,
        )
        self._attributes = element.attributes

    def consume(self, batch: Batch) -> None:
        """Write the rows of the batch."""
        self.write(batch, _rows(batch, self._attributes))


def _rows(batch: Batch, attributes: Sequence[str]) -> list[bytes]:
    """The rows of each frame of a batch."""
    objects = batch.objects
    columns: list[Sequence[object]] = [
        objects.labels(),
        objects.class_id.tolist(),
        rounded(objects.confidence, steps=CONFIDENCE_STEPS),
        *rounded(np.ascontiguousarray(objects.xyxy.T), steps=BOX_STEPS),
        ["" if number < 0 else number for number in objects.track_id.tolist()],
    ]
    if attributes:
        known = [own or {} for own in attributes_of(objects)]
        values = [[own.get(name, "") for own in known] for name in attributes]
        columns += [[";".join(value) if isinstance(value, tuple) else value for value in own] for own in values]
    fields = list(zip(*columns, strict=True))
    bounds = frame_bounds(batch)
    return [
        _text(
            (frame.stream.name, frame.index, frame.pts_seconds, *own) for own in fields[bounds[row] : bounds[row + 1]]
        )
        for row, frame in enumerate(batch.frames)
    ]


def _text(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
