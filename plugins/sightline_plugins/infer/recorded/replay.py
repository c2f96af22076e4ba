"""`replay`: recorded detections in the place of a detector."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from sightline.errors import ConfigurationError
from sightline.graph import Capability, CheckContext, Element, InputPath, Operator, Problem, Site
from sightline.graph.fields import Fraction, is_there
from sightline.graph.outputs import safe_name
from sightline.graph.streams import matching
from sightline.media import Batch, Objects, Stream
from sightline_plugins.infer.recorded.formats import UNLABELLED, RecordedFormat, read_recording
from sightline_plugins.infer.recorded.recording import Recording


class Replay(Element):
    """Put recorded detections in the place of a detector, so that trackers and rules run without a model.

    Reads MOT text (frames from 1; without labels), KITTI labels (one file as the tracking benchmark has it, or a folder
    with a file for each frame) and the JSON lines that `jsonl` writes (with attributes, parents, keypoints, corners,
    masks and embeddings; what keypoints are is told from their number). Objects are found by the number of the frame,
    so the recording must belong to the same pictures, all of them. The whole recording is held in memory.

    ```yaml
    - replay: {path: det.txt, format: mot, label: person}
    ```
    """

    name: ClassVar[str] = "replay"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})
    scalar: ClassVar[str | None] = "path"

    path: InputPath
    """File, or folder of KITTI labels; `{stream}` stands for the stream's name."""
    file_format: Annotated[RecordedFormat | None, Field(alias="format")] = None
    """How it is written; told from its contents when not given."""
    label: Annotated[str, Field(min_length=1)] | None = None
    """Label of every object, in the place of those recorded; MOT text has none, and its objects are called `object`."""
    confidence: Fraction = 0.0
    """Objects below are left out."""
    ids: bool = False
    """Take over the recorded track ids too, so that rules run without a tracker."""

    def provided(self) -> frozenset[Capability]:
        """Objects, and tracks when ids are taken over."""
        return self.gives | {Capability.TRACKS} if self.ids else self.gives

    def searches(self) -> bool:
        """Recordings are taken to hold what there is to find, on all their frames."""
        return True

    def found_labels(self) -> frozenset[str] | None:
        """The label given, or that of MOT text; None for recordings that bring their own."""
        if self.label is not None:
            return frozenset((self.label,))
        is_mot = self.file_format == "mot" and self.path.suffix == ".txt"
        return frozenset((UNLABELLED,)) if is_mot else None

    def path_for(self, stream: str) -> Path:
        """The recording of a stream."""
        return Path(str(self.path).replace("{stream}", safe_name(stream))).expanduser()

    def recording(self, stream: str, *, element: str) -> Recording:
        """Read the recording of a stream. Raises ConfigurationError that names file and line."""
        found = read_recording(self.path_for(stream), file_format=self.file_format, stream=stream)
        wanted = [item for item in found if item.confidence >= self.confidence]
        for item in wanted:
            if self.label is not None:
                item.label, item.class_id = self.label, None
            if not self.ids:
                item.track_id = -1
        return Recording(wanted, element=element)

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Every recording is there and can be read to its last line."""
        checked: set[Path] = set()
        for stream in matching(self.streams, context.streams):
            path = self.path_for(stream)
            if path in checked or not (is_there(path) or "{stream}" in str(self.path)):
                continue
            checked.add(path)
            try:
                self.recording(stream, element=self.name)
            except ConfigurationError as error:
                yield Problem(str(error), ("path",))

    def serves_all_gpus(self) -> bool:
        """True: a recording is read once."""
        return True

    def build(self, site: Site) -> ReplayOperator:
        """Make the operator; a stream's recording is read at its first frame."""
        return ReplayOperator(self, element_id=site.element_id)


class ReplayOperator(Operator):
    """Hands out recorded objects by the number of the frame."""

    def __init__(self, element: Replay, *, element_id: str) -> None:
        self._element = element
        self._element_id = element_id
        self._recordings: dict[Stream, Recording] = {}

    def process(self, batch: Batch) -> Batch:
        """Add the recorded objects of each frame."""
        rows: dict[Stream, list[int]] = {}
        for row, frame in enumerate(batch.frames):
            rows.setdefault(frame.stream, []).append(row)
        tables = [
            self._recording(stream).of_frames(own, [batch.frames[row].index for row in own])
            for stream, own in rows.items()
        ]
        objects = Objects.concat([batch.objects, *tables])
        looked = dataclasses.replace(batch, objects=objects, detected=(True,) * len(batch))
        return looked.with_search(self._element_id, range(len(batch)))

    def end_stream(self, stream: Stream) -> None:
        """Let go of the stream's recording."""
        self._recordings.pop(stream, None)

    def _recording(self, stream: Stream) -> Recording:
        recording = self._recordings.get(stream)
        if recording is None:
            recording = self._element.recording(stream.name, element=self._element_id)
            self._recordings[stream] = recording
        return recording
