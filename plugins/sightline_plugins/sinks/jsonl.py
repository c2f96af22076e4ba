"""`jsonl`: one line of JSON for each frame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec
import numpy as np

from sightline.graph import CheckContext, Element, OutputPath, Problem, Sink, Site
from sightline.graph.outputs import LineFile
from sightline.media import Batch, Stream
from sightline_plugins.sinks.files import StreamFiles, path_problems
from sightline_plugins.sinks.records import FrameRecord, frame_records


class Jsonl(Element):
    """Write what was found as JSON lines: one line for each frame, with its objects and events.

    Keys come in this order, and those that are empty are left out: `stream`, `frame` (from 0), `pts_ns`, `time` (when
    the time of capture is known), `size`, `objects` (`label`, `class_id`, `confidence`, `box` as left, top, right,
    bottom in pixels, `track_id`, `attributes`), `events` (`kind`, `rule` and what the kind adds). Boxes have two
    decimals, confidences three. Results do not depend on batch size or timing.

    Lines are in the file as soon as their batch is done, and only whole ones; that costs one system call for each
    batch and stream. A path without `{stream}` gathers all streams in one file.

    ```yaml
    - jsonl: {path: "out/{stream}.jsonl"}
    ```
    """

    name: ClassVar[str] = "jsonl"
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"

    path: OutputPath
    """File to write; `{stream}` stands for the stream's name, and `-` alone for standard output."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """The file can be written."""
        return path_problems(self, self.path, context=context, shareable=True)

    def build(self, site: Site) -> JsonlWriter:
        """Make the writer; files are opened at their first frame."""
        return JsonlWriter(StreamFiles(site.outputs, self.path))


class JsonlWriter(Sink):
    """Writes a line for each frame."""

    def __init__(self, files: StreamFiles) -> None:
        self._files = files
        self._encoder = msgspec.json.Encoder(enc_hook=_plain)

    def consume(self, batch: Batch) -> None:
        """Write the lines of the batch, those of one file in one go."""
        lines: dict[LineFile, list[FrameRecord]] = {}
        for frame, record in zip(batch.frames, frame_records(batch), strict=True):
            lines.setdefault(self._files.of(frame.stream), []).append(record)
        for file, records in lines.items():
            file.write(self._encoder.encode_lines(records))

    def end_stream(self, stream: Stream) -> None:
        """Close the stream's own file."""
        self._files.end_stream(stream)

    def close(self) -> None:
        """Close all files."""
        self._files.close()


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"an event holds {value!r}: only text, numbers, true and false can be written")
