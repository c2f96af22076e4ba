"""`coco`: objects as a COCO dataset or as COCO results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar, Literal

import msgspec
import numpy as np

from sightline.graph import CheckContext, Element, OutputPath, Outputs, Problem, Sink, Site
from sightline.graph.outputs import output_error
from sightline.media import Batch, Objects, Origin, Stream
from sightline_plugins.sinks.files import STANDARD_OUTPUT, path_problems
from sightline_plugins.sinks.records import BOX_STEPS, CONFIDENCE_STEPS, frame_bounds, rounded

_encode = msgspec.json.encode
Layout = Literal["dataset", "results"]


class Coco(Element):
    """Write objects as COCO JSON: a `dataset` (images, annotations, categories), or the `results` that are scored.

    The document is only whole at the end: until then it grows in two files beside it whose names end in `.part`, and
    then takes its name, so there is never half a document under it. Image ids count from 1 in each file, in the order
    of the frames; `file_name` is `stream/000012.jpg`. A category has the class id that the detector gave it; where two
    detectors use the same one, the later label gets the next free number.

    ```yaml
    - coco: {path: "out/{stream}.json"}
    ```
    """

    name: ClassVar[str] = "coco"
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"

    path: OutputPath
    """File to write; `{stream}` stands for the stream's name, without it one document holds all streams."""
    layout: Layout = "dataset"
    """A dataset with images and categories, or a list of results alone."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """The file can be written."""
        if self.path == STANDARD_OUTPUT:
            yield Problem("coco writes files: standard output can not take them", ("path",))
        yield from path_problems(self, self.path, context=context, shareable=True)

    def build(self, site: Site) -> CocoWriter:
        """Make the writer; files are opened at their first frame."""
        return CocoWriter(site.outputs, self.path, layout=self.layout)


class CocoWriter(Sink):
    """Writes one document for each stream, or one for all."""

    def __init__(self, outputs: Outputs, template: str, *, layout: Layout) -> None:
        self._outputs = outputs
        self._template = template
        self._layout: Layout = layout
        self._documents: dict[Stream | None, CocoDocument] = {}

    def consume(self, batch: Batch) -> None:
        """Add the frames and objects of the batch."""
        bounds = frame_bounds(batch)
        parts: dict[CocoDocument, list[tuple[int, int, int]]] = {}
        for row, frame in enumerate(batch.frames):
            parts.setdefault(self._document(frame.stream), []).append((row, bounds[row], bounds[row + 1]))
        for document, spans in parts.items():
            document.add(batch, spans)

    def end_stream(self, stream: Stream) -> None:
        """Finish the stream's own document."""
        document = self._documents.pop(stream, None)
        if document is not None:
            document.finish()

    def close(self) -> None:
        """Finish all documents: however the run ended, they are whole."""
        while self._documents:
            self._documents.popitem()[1].finish()

    def _document(self, stream: Stream) -> CocoDocument:
        key = stream if "{stream}" in self._template else None
        document = self._documents.get(key)
        if document is None:
            path = self._outputs.path(self._template, stream=stream.name)
            document = self._documents[key] = CocoDocument(path, outputs=self._outputs, layout=self._layout)
        return document


class CocoDocument:
    """One COCO document that grows in parts beside its path and takes its name when it is finished."""

    def __init__(self, path: Path, *, outputs: Outputs, layout: Layout) -> None:
        self._path = path
        self._outputs = outputs
        self._is_dataset = layout == "dataset"
        outputs.check_replaceable(path)
        self._annotations = outputs.open_lines(path.with_name(f"{path.name}.part"))
        self._images = outputs.open_lines(path.with_name(f"{path.name}.images.part"))
        self._categories = _Categories()
        self._image_count = 0
        self._annotation_count = 0
        self._annotations.write(b'{"annotations":[' if self._is_dataset else b"[")

    def add(self, batch: Batch, spans: Iterable[tuple[int, int, int]]) -> None:
        """Add frames of a batch: row, first object, and the one after the last. Raises OutputError."""
        annotations = self._objects(batch.objects)
        images: list[bytes] = []
        lines: list[bytes] = []
        for row, first, last in spans:
            frame = batch.frames[row]
            self._image_count += 1
            width, height = frame.size_wh
            name = f"{frame.stream.name}/{frame.index:06d}.jpg"
            image = {"id": self._image_count, "width": width, "height": height, "file_name": name}
            images.append(_item(image, first=self._image_count == 1))
            lines += [self._line(annotation) for annotation in annotations[first:last]]
        self._images.write(b"".join(images))
        self._annotations.write(b"".join(lines))

    def finish(self) -> None:
        """Put the parts together under the document's name; after an error they stay apart. Raises OutputError."""
        images = self._images
        if not (images.is_open and self._annotations.is_open):
            return
        images.close()
        if self._is_dataset:
            self._annotations.write(b'\n],"images":[')
            self._append(images.path)
            self._annotations.write(b'\n],"categories":' + _encode(self._categories.listed()) + b"}\n")
        else:
            self._annotations.write(b"\n]\n")
        self._annotations.close()
        self._outputs.rename(self._annotations.path, to=self._path)
        self._outputs.remove(images.path)

    def _objects(self, objects: Objects) -> list[dict[str, object]]:
        ltwh = objects.xyxy.astype(np.float64)
        ltwh[:, 2:] -= ltwh[:, :2]
        columns = (
            [self._categories.number(objects.origins[origin], class_id) for origin, class_id in _classes(objects)],
            rounded(ltwh, steps=BOX_STEPS),
            rounded(ltwh[:, 2] * ltwh[:, 3], steps=BOX_STEPS),
            rounded(objects.confidence, steps=CONFIDENCE_STEPS),
            objects.track_id.tolist(),
        )
        return [
            {"category_id": category, "bbox": box, "area": area, "iscrowd": 0, "score": score}
            | ({"track_id": track_id} if track_id >= 0 else {})
            for category, box, area, score, track_id in zip(*columns, strict=True)
        ]

    def _line(self, annotation: dict[str, object]) -> bytes:
        self._annotation_count += 1
        if self._is_dataset:
            record = {"id": self._annotation_count, "image_id": self._image_count, **annotation}
        else:
            record = {"image_id": self._image_count} | {
                key: value for key, value in annotation.items() if key not in ("area", "iscrowd")
            }
        return _item(record, first=self._annotation_count == 1)

    def _append(self, part: Path) -> None:
        try:
            with part.open("rb") as file:
                while chunk := file.read(1 << 20):
                    self._annotations.write(chunk)
        except OSError as error:
            raise output_error(part, error, doing="read") from error


class _Categories:
    """Numbers of labels: the detector's class id, or the next free number when that is taken."""

    def __init__(self) -> None:
        self._labels: dict[int, str] = {}
        self._numbers: dict[tuple[Origin, int], int] = {}

    def number(self, origin: Origin, class_id: int) -> int:
        known = self._numbers.get((origin, class_id))
        if known is None:
            known = self._numbers[origin, class_id] = self._place(origin.label(class_id), class_id)
        return known

    def listed(self) -> list[dict[str, object]]:
        return [{"id": number, "name": label} for number, label in sorted(self._labels.items())]

    def _place(self, label: str, class_id: int) -> int:
        same = next((number for number, other in self._labels.items() if other == label), None)
        if same is not None:
            return same
        number = class_id if class_id not in self._labels else max(self._labels) + 1
        self._labels[number] = label
        return number


def _classes(objects: Objects) -> Iterator[tuple[int, int]]:
    return zip(objects.origin.tolist(), objects.class_id.tolist(), strict=True)


def _item(record: object, *, first: bool) -> bytes:
    return (b"\n" if first else b",\n") + _encode(record)
