"""`replay`: recorded detections instead of a detector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from glob import has_magic
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sightline.errors import ConfigurationError
from sightline.graph import Capability, CheckContext, Element, InputPath, Operator, Problem, Site
from sightline.graph.fields import Fraction, is_there, matching
from sightline.graph.outputs import safe_name
from sightline.media import Batch, Objects, Origin, Stream
from sightline.media.shapes import usual_skeleton
from sightline_plugins.replay.files import FileState, state_of_files
from sightline_plugins.replay.formats import UNLABELLED, RecordedFormat, RecordedObject, read_recording
from sightline_plugins.sinks.records import Attribute

Column = npt.NDArray[Any]


class Replay(Element):
    """Add recorded detections instead of running a detector, so that trackers and rules run without a model.

    Reads MOT text (frames from 1; without labels), KITTI labels (one file as in the tracking benchmark, or a folder
    with one file per frame) and the JSON lines of `jsonl` (with attributes, parents, keypoints, corners, masks and
    embeddings; the skeleton follows from the number of keypoints). Objects are found by frame number, so the recording
    must belong to the same video, with all its frames. The whole recording is held in memory.

    ```yaml
    - replay: {path: det.txt, format: mot, label: person}
    ```
    """

    name: ClassVar[str] = "replay"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})
    scalar: ClassVar[str | None] = "path"

    path: InputPath
    """File, or folder of KITTI labels; `{stream}` is replaced by the stream's name. A pattern (`gate-*.jsonl*`) stands
    for the parts of a rotated recording. Files that end in `.gz` or `.zst` are decompressed."""
    file_format: Annotated[RecordedFormat | None, Field(alias="format")] = None
    """Format of the file. Default: recognised from its contents."""
    label: Annotated[str, Field(min_length=1)] | None = None
    """Label of all objects, instead of the recorded labels. MOT text has none: its objects are labelled `object`."""
    confidence: Fraction = 0.0
    """Minimum confidence."""
    ids: bool = False
    """Keep the recorded track ids, so that rules run without a tracker."""

    def provided(self) -> frozenset[Capability]:
        """Return objects, tracks when ids are kept, and embeddings where the format can hold them."""
        has_embeddings = self.file_format not in ("mot", "kitti") and self.path.suffix != ".txt"
        more = {Capability.TRACKS: self.ids, Capability.EMBEDDINGS: has_embeddings}
        return self.gives | {capability for capability, is_given in more.items() if is_given}

    def searches(self) -> bool:
        """Return True: recordings are taken to hold all objects of all their frames."""
        return True

    def found_labels(self) -> frozenset[str] | None:
        """Return the given label, or that of MOT text; None for recordings with labels."""
        if self.label is not None:
            return frozenset((self.label,))
        is_mot = self.file_format == "mot" and self.path.suffix == ".txt"
        return frozenset((UNLABELLED,)) if is_mot else None

    def path_for(self, stream: str) -> Path:
        return Path(str(self.path).replace("{stream}", safe_name(stream))).expanduser()

    def recording(self, stream: str, *, element: str) -> Recording:
        """Read the recording of a stream. Raises ConfigurationError with file and line."""
        found = read_recording(self.path_for(stream), file_format=self.file_format, stream=stream)
        wanted = [item for item in found if item.confidence >= self.confidence]
        for item in wanted:
            if self.label is not None:
                item.label, item.class_id = self.label, None
            if not self.ids:
                item.track_id = -1
        return Recording(wanted, element=element)

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check that every recording exists and can be read to its last line."""
        checked: set[Path] = set()
        for stream in matching(self.streams, context.streams):
            path = self.path_for(stream)
            if path in checked or not (is_there(path) or "{stream}" in str(self.path) or has_magic(str(path))):
                continue
            checked.add(path)
            try:
                _check_recording(self, stream, state_of_files(path))
            except ConfigurationError as error:
                yield Problem(str(error), ("path",))

    def serves_all_gpus(self) -> bool:
        """Return True: a recording is read once."""
        return True

    def build(self, site: Site) -> ReplayOperator:
        """Make the operator; a stream's recording is read at its first frame."""
        return ReplayOperator(self, element_id=site.element_id)


@lru_cache(maxsize=256)
def _check_recording(element: Replay, stream: str, state: tuple[FileState, ...]) -> None:
    """Read a recording whose files are in this state, and keep nothing of it but that it can be read.

    Every change to a running pipeline checks all its steps, and most leave the recordings as they are.
    """
    del state
    element.recording(stream, element=element.name)


class ReplayOperator(Operator):
    """Adds recorded objects by frame number."""

    def __init__(self, element: Replay, *, element_id: str) -> None:
        self._element = element
        self._element_id = element_id
        self._recordings: dict[Stream, Recording] = {}

    def process(self, batch: Batch) -> Batch:
        rows: dict[Stream, list[int]] = {}
        for row, frame in enumerate(batch.frames):
            rows.setdefault(frame.stream, []).append(row)
        tables = [
            self._recording(stream).of_frames(own, [batch.frames[row].index for row in own])
            for stream, own in rows.items()
        ]
        objects = Objects.concat([batch.objects, *tables])
        every = range(len(batch))
        return batch.with_objects(objects).with_detection(every).with_search(self._element_id, every)

    def end_stream(self, stream: Stream) -> None:
        self._recordings.pop(stream, None)

    def _recording(self, stream: Stream) -> Recording:
        recording = self._recordings.get(stream)
        if recording is None:
            recording = self._element.recording(stream.name, element=self._element_id)
            self._recordings[stream] = recording
        return recording


class Recording:
    """The detections of one stream, as columns in the order of frames."""

    def __init__(self, found: Sequence[RecordedObject], *, element: str) -> None:
        ordered = sorted(found, key=lambda item: item.frame)
        vocabularies = _Vocabularies()
        classes = [vocabularies.place(item.label, item.class_id) for item in ordered]
        count = len(ordered)
        self._table = Objects(
            frame=np.array([item.frame for item in ordered], np.int32),
            xyxy=np.array([item.xyxy for item in ordered], np.float32).reshape(count, 4),
            confidence=np.array([item.confidence for item in ordered], np.float32),
            class_id=np.array([class_id for _, class_id in classes], np.int32),
            track_id=np.array([item.track_id for item in ordered], np.int64),
            parent=_parent_rows(ordered),
            origin=np.array([origin for origin, _ in classes], np.int16),
            origins=tuple(Origin(element, labels) for labels in vocabularies.labels()),
            extra=_extra_columns(ordered),
        )

    def __len__(self) -> int:
        return len(self._table)

    def of_frames(self, rows: Sequence[int], indices: Sequence[int]) -> Objects:
        """Return the objects of the frames with these indices, as those of the `rows` of a batch."""
        bounds = np.searchsorted(self._table.frame, [[index, index + 1] for index in indices])
        counts = bounds[:, 1] - bounds[:, 0]
        if not counts.any():
            return Objects.empty()
        found = np.concatenate([np.arange(first, last) for first, last in bounds.tolist()])
        frame = np.repeat(np.array(rows, np.int32), counts)
        return self._table.select(found).with_columns(frame=frame)


@dataclass(slots=True)
class _Vocabularies:
    """Labels by class number; where two labels claim one number, one of them goes to another list."""

    lists: list[dict[int, str]] = field(default_factory=lambda: [{}])

    def place(self, label: str, class_id: int | None) -> tuple[int, int]:
        """Return the list and the number of a label in it; without a given number, the next free one is taken."""
        if class_id is None:
            known = self.lists[0]
            class_id = next((number for number, other in known.items() if other == label), len(known))
        for index, known in enumerate(self.lists):
            if known.setdefault(class_id, label) == label:
                return index, class_id
        self.lists.append({class_id: label})
        return len(self.lists) - 1, class_id

    def labels(self) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(known.get(number, str(number)) for number in range(max(known, default=-1) + 1))
            for known in self.lists
        )


def _parent_rows(found: Sequence[RecordedObject]) -> npt.NDArray[np.int32]:
    """Return the row of each object's parent, -1 where it has none or the parent is not among them."""
    rows = {id(item): row for row, item in enumerate(found)}
    return np.array([rows.get(id(item.parent), -1) for item in found], np.int32)


def _extra_columns(found: Sequence[RecordedObject]) -> dict[str, Column]:
    """Return the columns of all attributes and structures that any of the objects has."""
    names = dict.fromkeys(name for item in found for name in item.attributes or ())
    columns = {name: _attribute_column([(item.attributes or {}).get(name) for item in found]) for name in names}
    points = [item.keypoints for item in found]
    if any(own is not None for own in points):
        columns["keypoints"] = _stacked(points)
        columns["skeleton"] = _object_column([None if own is None else usual_skeleton(len(own)) for own in points])
    for name in ("corners", "embedding"):
        values = [getattr(item, name) for item in found]
        if any(own is not None for own in values):
            columns[name] = _stacked(values)
    if any(item.mask is not None for item in found):
        columns["mask"] = _object_column([item.mask for item in found])
    return columns


def _stacked(values: Sequence[npt.NDArray[np.float32] | None]) -> Column:
    """Return arrays as rows of a column as wide as the widest, padded with NaN."""
    widest = max((own.shape for own in values if own is not None), default=(0,))
    column = np.full((len(values), *widest), np.nan, np.float32)
    for row, own in zip(column, values, strict=True):
        if own is not None:
            row[: len(own)] = own
    return column


def _object_column(values: Sequence[object]) -> Column:
    column = np.empty(len(values), np.object_)
    column[:] = values
    return column


def _attribute_column(values: Sequence[Attribute | None]) -> Column:
    """Return the values of one attribute; missing ones are NaN among numbers, empty among texts, None among lists."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, tuple) for value in known):
        return _object_column(values)
    if all(isinstance(value, bool) for value in known) and len(known) == len(values):
        return np.array(values, np.bool_)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in known) and len(known) == len(values):
        return np.array(values, np.int64)
    if any(isinstance(value, str) for value in known):
        return np.array(["" if value is None else str(value) for value in values], np.str_)
    return np.array([np.nan if value is None else float(value) for value in values], np.float64)  # type: ignore[arg-type]
