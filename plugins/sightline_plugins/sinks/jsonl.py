"""`jsonl`: one line of JSON for each frame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from sightline.graph import CheckContext, Element, OutputPath, Problem, Site
from sightline.media import Batch
from sightline_plugins.sinks.compression import Compression
from sightline_plugins.sinks.files import STREAM, LineSink, path_problems
from sightline_plugins.sinks.records import FrameRecord, frame_records, tensor_records
from sightline_plugins.sinks.retention import Keep
from sightline_plugins.sinks.rotation import PLACEHOLDERS, Rotate, rotation_problems


class Jsonl(Element):
    """Write results as JSON lines: one line per frame, with its objects and events.

    Keys come in this order, and empty ones are left out: `stream`, `frame` (from 0), `pts_ns`, `time` (if the capture
    time is known), `time_source` (`rtcp`: the camera's clock; `arrival`: the arrival of the frame), `size`, `objects`
    (`label`, `class_id`, `confidence`, `box` as left, top, right, bottom in pixels, `track_id`, `attributes`, and
    results of some models), `events` (`kind`, `rule` and the data of the kind). Boxes have two decimals, confidences
    three. Results do not depend on batch size or timing.

    Results of some models: `parent` (index of the object that it was found on, among those of the line, from 0),
    `keypoints` (x, y, confidence of each, in the order of the skeleton; null if not found), `corners` (of an oriented
    box, clockwise from its first), `mask` (run lengths of the whole frame as COCO compresses them, {"size": [height,
    width], "counts": "..."}), and `embedding` if requested. Behind `dewarp`, `view` is the view that shows the object,
    and `source_box` or `source_polygon` (clockwise from the left top) is where it is in the camera's image.

    With `tensors` the key `tensors` of a line holds, by step and output, the arrays that steps attached to the frame
    (`"flow-1.vectors"` of `flow`, outputs of `tensors`), as lists of lists with three decimals; null is no number.

    Lines are in the file as soon as their batch is done; that costs one system call per batch and stream. Only a kill
    during a write can leave the last line cut; `replay` and `eval` skip it. A path without `{stream}` collects all
    streams in one file.

    With `rotate` the lines go on in another file when one has reached a size, or at the end of a period of the day in
    UTC: `out/gate-20261124T160000Z.jsonl`, named by the time of its beginning. `{date}` (`2026-11-24`) and `{time}` in
    the path put it elsewhere. No such file is ever overwritten; a name that is taken gets a number (`-2`). `compress`
    replaces each finished file by a compressed one (`.gz`, `.zst`) bit by bit while frames pass; at the end of a run
    that may take three seconds, and what is then left, as what a kill leaves, is compressed by the next run that writes
    to the same path. The open file is never compressed, so that `tail -f` works and a kill costs one line. `replay` and
    `eval` read rotated files, compressed or not, by a pattern: `out/gate-*.jsonl*`.

    A full disk ends the run. With `on_error: skip` it does not: lines without room are lost and counted, never cut; a
    message reports it, and writing resumes when there is room.

    ```yaml
    - jsonl: {path: "out/{stream}.jsonl"}
    - jsonl:
        path: "out/{stream}.jsonl"
        rotate: {size: 100MB, every: 1h}
        compress: gzip
        keep: {age: 30d, size: 50GB}
    ```
    """

    name: ClassVar[str] = "jsonl"
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
    embeddings: bool = False
    """Write the embedding of each object too, with six decimals: hundreds of numbers an object."""
    tensors: bool = False
    """Write the tensors of each frame too: optical flow is a thousand numbers and more."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Check that the file can be written, and how it is rotated."""
        known = (STREAM,) if self.rotate is None else (STREAM, *PLACEHOLDERS)
        yield from rotation_problems(self.path, rotate=self.rotate, compress=self.compress, keep=self.keep)
        yield from path_problems(self, self.path, context=context, shareable=True, known=known)

    def build(self, site: Site) -> JsonlWriter:
        """Make the writer; files are opened at their first frame."""
        return JsonlWriter(self, site)


class JsonlWriter(LineSink):
    """Writes a line for each frame."""

    def __init__(self, element: Jsonl, site: Site) -> None:
        super().__init__(
            element, element.path, site=site, rotate=element.rotate, compress=element.compress, keep=element.keep
        )
        self._embeddings, self._tensors = element.embeddings, element.tensors
        self._encoder = msgspec.json.Encoder(enc_hook=_plain)

    def consume(self, batch: Batch) -> None:
        """Write the lines of the batch."""
        records: Sequence[FrameRecord] = frame_records(batch, embeddings=self._embeddings)
        if self._tensors:
            records = tensor_records(batch, records)
        self.write(batch, [self._encoder.encode(record) + b"\n" for record in records])


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"an event holds {value!r}: only text, numbers, true and false can be written")
