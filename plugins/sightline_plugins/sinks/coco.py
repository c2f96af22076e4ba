"""`coco`: writes detections as a COCO document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from sightline.errors import OutputError
from sightline.graph import CheckContext, Element, OutputPath, Outputs, Problem, Sink, Site
from sightline.graph.outputs import LineFile, output_error
from sightline.media import Batch, Objects, Origin, Skeleton, Stream
from sightline_plugins.sinks.files import STANDARD_OUTPUT, STREAM, Degradation, path_problems
from sightline_plugins.sinks.records import (
    BOX_STEPS,
    CONFIDENCE_STEPS,
    corners,
    frame_bounds,
    keypoints,
    left_top_size,
    masks,
    polygon_areas,
    rounded,
)

Annotation = dict[str, Any]
_VISIBLE = 2


class Categories:
    """Category ids of labels: the detector's class id, or the next free number when that is taken."""

    def __init__(self) -> None:
        self._labels: dict[int, str] = {}
        self._numbers: dict[tuple[Origin, int], int] = {}
        self._skeletons: dict[int, Skeleton] = {}

    def number(self, origin: Origin, class_id: int) -> int:
        """The category id of a class."""
        known = self._numbers.get((origin, class_id))
        if known is not None:
            return known
        label = origin.label(class_id)
        number = next((number for number, other in self._labels.items() if other == label), None)
        if number is None:
            number = class_id if class_id not in self._labels else max(self._labels) + 1
            self._labels[number] = label
        self._numbers[origin, class_id] = number
        return number

    def note_skeleton(self, number: int, skeleton: Skeleton) -> None:
        """Set the keypoints of a category."""
        self._skeletons.setdefault(number, skeleton)

    def listed(self) -> list[dict[str, object]]:
        """The categories of a dataset; its keypoints count from 1."""
        found = []
        for number, label in sorted(self._labels.items()):
            category: dict[str, object] = {"id": number, "name": label}
            if (skeleton := self._skeletons.get(number)) is not None:
                category["keypoints"] = skeleton.points
                category["skeleton"] = [[first + 1, last + 1] for first, last in skeleton.edges]
            found.append(category)
        return found


def annotations_of(batch: Batch, *, categories: Categories, scored: bool) -> list[Annotation]:
    """An annotation of each object, without its ids; `scored` ones are results, the others belong in a dataset."""
    objects = batch.objects
    ltwh = left_top_size(objects)
    classes = zip(objects.origin.tolist(), objects.class_id.tolist(), strict=True)
    numbers = [categories.number(objects.origins[origin], class_id) for origin, class_id in classes]
    boxes = rounded(ltwh, steps=BOX_STEPS)
    scores = rounded(objects.confidence, steps=CONFIDENCE_STEPS)
    areas = rounded(ltwh[:, 2] * ltwh[:, 3], steps=BOX_STEPS)
    found: list[Annotation] = [
        {"category_id": number, "bbox": box}
        | ({} if scored else {"area": area, "iscrowd": 0})
        | {"score": score}
        | ({"track_id": track_id} if track_id >= 0 else {})
        for number, box, area, score, track_id in zip(
            numbers, boxes, areas, scores, objects.track_id.tolist(), strict=True
        )
    ]
    _add_shapes(found, batch, scored=scored)
    if "keypoints" in objects.extra:
        _add_keypoints(found, objects, categories=categories, scored=scored)
    return found


def _add_shapes(found: list[Annotation], batch: Batch, *, scored: bool) -> None:
    objects = batch.objects
    if "corners" in objects.extra:
        areas = rounded(polygon_areas(objects.extra["corners"]), steps=BOX_STEPS)
        for annotation, own, area in zip(found, corners(objects), areas, strict=True):
            if own is not None:
                annotation |= {"segmentation": [[place for point in own for place in point]]}
                annotation |= {} if scored else {"area": area}
    if "mask" in objects.extra:
        for annotation, written, mask in zip(found, masks(batch), objects.extra["mask"].tolist(), strict=True):
            if mask is not None:
                annotation |= {"segmentation": written} | ({} if scored else {"area": mask.area})


def _add_keypoints(found: list[Annotation], objects: Objects, *, categories: Categories, scored: bool) -> None:
    skeletons = objects.extra.get("skeleton", np.full(len(objects), None))
    for annotation, points, skeleton in zip(found, keypoints(objects), skeletons.tolist(), strict=True):
        if points is None:
            continue
        triples = [_triple(*point, scored=scored) for point in points]
        annotation["keypoints"] = [number for triple in triples for number in triple]
        if not scored:
            annotation["num_keypoints"] = sum(triple[2] > 0 for triple in triples)
        if skeleton is not None:
            categories.note_skeleton(annotation["category_id"], skeleton)


def _triple(x: float, y: float, confidence: float, *, scored: bool) -> tuple[float, float, float]:
    if not confidence > 0:
        return 0, 0, 0
    return x, y, confidence if scored else _VISIBLE


_encode = msgspec.json.encode
Layout = Literal["dataset", "results"]


class Coco(Element):
    """Write objects as COCO JSON: a `dataset` (images, annotations, categories), or `results` for scoring.

    The document is complete only at the end: until then it grows in two files beside it whose names end in `.part`, so
    there is never half a document under its name. Image ids count from 1 in each file, in the order of the frames;
    `file_name` is `stream/000012.jpg`. A category has the class id of the detector; if two detectors use the same one,
    the later label gets the next free id.

    Masks are compressed run lengths in `segmentation`, oriented boxes a polygon there, and `area` is theirs. Keypoints
    have 2 as their third number, or 0 and no position if not found; in results it is their confidence. The category
    holds their names and lines.

    ```yaml
    - coco: {path: "out/{stream}.json"}
    ```
    """

    name: ClassVar[str] = "coco"
    sink: ClassVar[bool] = True
    results_only: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"

    path: OutputPath
    """File to write; `{stream}` stands for the stream's name, without it one document holds all streams."""
    layout: Layout = "dataset"
    """A dataset with images and categories, or a list of results alone."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Check that the file can be written."""
        if self.path == STANDARD_OUTPUT:
            yield Problem("coco writes files: standard output cannot take them", ("path",))
        yield from path_problems(self, self.path, context=context, shareable=True)

    def build(self, site: Site) -> CocoWriter:
        """Make the writer; files are opened at their first frame."""
        return CocoWriter(site, self.path, layout=self.layout, continues=self.on_error == "skip")


class CocoWriter(Sink):
    """Writes one document for each stream, or one for all.

    When it `continues` after errors, the frames of batches that cannot be written are lost and counted, and it tries
    again after two seconds.
    """

    def __init__(self, site: Site, template: str, *, layout: Layout, continues: bool) -> None:
        self._site = site
        self._template = template
        self._layout: Layout = layout
        self._degradation = Degradation(site) if continues else None
        self._documents: dict[Stream | None, CocoDocument] = {}
        self._lost: dict[str, Counter[str]] = {}

    def consume(self, batch: Batch) -> None:
        """Add the frames and objects of the batch. Raises OutputError."""
        bounds = frame_bounds(batch)
        parts: dict[Stream | None, list[tuple[int, int, int]]] = {}
        for row, frame in enumerate(batch.frames):
            key = frame.stream if STREAM in self._template else None
            parts.setdefault(key, []).append((row, bounds[row], bounds[row + 1]))
        for key, spans in parts.items():
            if self._degradation is None:
                self._document(key).add(batch, spans)
            else:
                self._try(key, batch, spans, degradation=self._degradation)

    def end_stream(self, stream: Stream) -> None:
        """Finish the stream's own document. Raises OutputError."""
        document = self._documents.pop(stream, None)
        if document is not None:
            self._finish(document, name=stream.name)

    def close(self) -> None:
        """Finish all documents, so that they are complete however the run ended. Raises OutputError."""
        while self._documents:
            stream, document = self._documents.popitem()
            self._finish(document, name="" if stream is None else stream.name)

    def totals(self) -> Mapping[str, Any]:
        """The `lost_frames` of each stream by reason, where there are any."""
        return {stream: {"lost_frames": dict(lost)} for stream, lost in self._lost.items()}

    def _try(
        self, key: Stream | None, batch: Batch, spans: list[tuple[int, int, int]], *, degradation: Degradation
    ) -> None:
        """Add frames, or lose them."""
        streams = [batch.frames[row].stream.name for row, _, _ in spans]
        if not degradation.is_waiting:
            try:
                self._document(key).add(batch, spans)
            except OutputError as error:
                degradation.failed(error, stream=streams[0])
            else:
                degradation.succeeded(stream=streams[0])
                return
        for name in streams:
            self._lost.setdefault(name, Counter())[degradation.reason] += 1

    def _finish(self, document: CocoDocument, *, name: str) -> None:
        try:
            document.finish()
        except OutputError as error:
            if self._degradation is None:
                raise
            self._degradation.failed(error, stream=name)

    def _document(self, key: Stream | None) -> CocoDocument:
        document = self._documents.get(key)
        if document is None:
            outputs = self._site.outputs
            path = outputs.claim(outputs.path(self._template, stream=None if key is None else key.name))
            document = self._documents[key] = CocoDocument(path, outputs=outputs, layout=self._layout)
        return document


class CocoDocument:
    """One COCO document that grows in parts beside its path and takes its name when it is finished.

    A call that fails leaves the parts as they were before it, and may be made again.
    """

    def __init__(self, path: Path, *, outputs: Outputs, layout: Layout) -> None:
        self._path = path
        self._outputs = outputs
        self._is_dataset = layout == "dataset"
        self._beginning = b'{"annotations":[' if self._is_dataset else b"["
        self._annotations_path = path.with_name(f"{path.name}.part")
        self._images_path = path.with_name(f"{path.name}.images.part")
        self._annotations: LineFile | None = None
        self._images: LineFile | None = None
        self._categories = Categories()
        self._image_count = 0
        self._annotation_count = 0

    def add(self, batch: Batch, spans: Iterable[tuple[int, int, int]]) -> None:
        """Add frames of a batch, given as row, first object and end of objects. Raises OutputError."""
        annotations = annotations_of(batch, categories=self._categories, scored=not self._is_dataset)
        images: list[bytes] = []
        lines: list[bytes] = []
        counts = self._image_count, self._annotation_count
        for row, first, last in spans:
            frame = batch.frames[row]
            self._image_count += 1
            width, height = frame.size_wh
            name = f"{frame.stream.name}/{frame.index:06d}.jpg"
            image = {"id": self._image_count, "width": width, "height": height, "file_name": name}
            images.append(_item(image, first=self._image_count == 1))
            lines += [self._line(annotation) for annotation in annotations[first:last]]
        try:
            with self._parts() as (annotation_file, image_file):
                annotation_file.write(b"".join(lines))
                image_file.write(b"".join(images))
        except OutputError:
            self._image_count, self._annotation_count = counts
            raise

    def finish(self) -> None:
        """Join the parts under the document's name; after an error they stay apart. Raises OutputError."""
        try:
            self._join()
        finally:
            for file in (self._annotations, self._images):
                if file is not None:
                    file.close()

    def _join(self) -> None:
        with self._parts() as (annotations, images):
            if self._is_dataset:
                annotations.write(b'\n],"images":[')
                try:
                    with images.path.open("rb") as file:
                        while chunk := file.read(1 << 20):
                            annotations.write(chunk)
                except OSError as error:
                    raise output_error(images.path, error, doing="read") from error
                annotations.write(b'\n],"categories":' + _encode(self._categories.listed()) + b"}\n")
            else:
                annotations.write(b"\n]\n")
        annotations.close()
        images.close()
        self._outputs.rename(annotations.path, to=self._path)
        self._outputs.remove(images.path)

    @contextmanager
    def _parts(self) -> Iterator[tuple[LineFile, LineFile]]:
        """Open both parts if they are not; an error inside the block takes back what was written in it."""
        if self._annotations is None:
            self._outputs.check_replaceable(self._path)
            self._annotations = self._outputs.open_lines(self._annotations_path)
        if self._images is None:
            self._images = self._outputs.open_lines(self._images_path)
        annotations = self._annotations = self._again(self._annotations)
        images = self._images = self._again(self._images)
        if not annotations.whole_bytes:
            annotations.write(self._beginning)
        whole_bytes = annotations.whole_bytes, images.whole_bytes
        try:
            yield annotations, images
        except OutputError:
            for file, size in zip((annotations, images), whole_bytes, strict=True):
                file.take_back(size)
            raise

    def _again(self, file: LineFile) -> LineFile:
        if file.is_open:
            return file
        return self._outputs.open_again(file.path, whole_bytes=file.whole_bytes)

    def _line(self, annotation: dict[str, object]) -> bytes:
        self._annotation_count += 1
        record = {"image_id": self._image_count, **annotation}
        if self._is_dataset:
            record = {"id": self._annotation_count, **record}
        return _item(record, first=self._annotation_count == 1)


def _item(record: object, *, first: bool) -> bytes:
    return (b"\n" if first else b",\n") + _encode(record)
