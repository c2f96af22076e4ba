"""Pre-labels in the formats that tools for labelling and training read.

- COCO: https://cocodataset.org/#format-data, with boxes, masks (compressed run lengths), corners of oriented boxes (a
  polygon), and beside these `score`, `track_id` and, for images, `reasons`. Category ids count from 0.
- YOLO: a text file for each image, `class x_center y_center width height` in fractions of the image, and `data.yaml`:
  https://docs.ultralytics.com/datasets/detect/.
- Label Studio: tasks with predictions, boxes in percent of the image, and the configuration of the labels:
  https://labelstud.io/guide/predictions.
- CVAT for images 1.1: https://docs.cvat.ai/docs/dataset_management/formats/format-cvat/.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypeAlias
from xml.sax.saxutils import escape, quoteattr

import msgspec
import numpy as np

from sightline_plugins.harvest.harvest import Format
from sightline_plugins.harvest.manifest import HarvestRecord, Labels
from sightline_plugins.sinks.records import BOX_STEPS, ObjectRecord, decode_mask, polygon_areas, rounded

IMAGES = "images"
LABELS = "labels"
DOCUMENTS = ("annotations.json", "data.yaml", "tasks.json", "label_config.xml", "annotations.xml")
"""The files of all formats that are not about a single image."""
DEFAULT_IMAGE_URL = f"/data/local-files/?d={IMAGES}/"
_FRACTION_STEPS = 1e6
_PERCENT_STEPS = 1e4

Document: TypeAlias = tuple[str, bytes]
"""A file: its path below the folder, and what is in it."""
Writer: TypeAlias = Callable[[Iterable[HarvestRecord], Labels, str, Container[str]], Iterator[Document]]

_encode = msgspec.json.encode


def documents(
    layout: Format, records: Iterable[HarvestRecord], labels: Labels, *, image_url: str, known: Container[str]
) -> Iterator[Document]:
    """Yield the files with the pre-labels of all frames. Those for single images whose path is `known` are left out."""
    return _WRITERS[layout](records, labels, image_url, known)


def label_path(image: str) -> str:
    """The file with the labels of one image, where the format has such."""
    return f"{LABELS}/{PurePath(image).stem}.txt"


def _boxes(record: HarvestRecord, labels: Labels) -> Iterator[tuple[ObjectRecord, list[float]]]:
    """Yield the objects of a frame, with their boxes cut to the image, without those that have no area or whose label
    is none of `labels`.
    """
    width, height = record.size
    for one in record.objects:
        left, top, right, bottom = (float(value or 0) for value in one.box)
        left, right = max(left, 0.0), min(right, float(width))
        top, bottom = max(top, 0.0), min(bottom, float(height))
        if right > left and bottom > top and labels.number(one.label) is not None:
            yield one, [left, top, right, bottom]


def _coco(records: Iterable[HarvestRecord], labels: Labels, url: str, known: Container[str]) -> Iterator[Document]:
    del url, known
    images: list[bytes] = []
    annotations: list[bytes] = []
    for number, record in enumerate(records, 1):
        width, height = record.size
        image: dict[str, Any] = {"id": number, "file_name": record.image, "width": width, "height": height}
        image |= {} if record.time is None else {"date_captured": record.time}
        image |= {"stream": record.stream, "frame": record.frame, "score": record.score, "reasons": record.reasons}
        images.append(_encode(image))
        for one, box in _boxes(record, labels):
            annotation = {"id": len(annotations) + 1, "image_id": number, **_annotation(one, box, labels)}
            annotations.append(_encode(annotation))
    categories = [_encode({"id": number, "name": name}) for number, name in enumerate(labels.names)]
    parts = {"images": images, "annotations": annotations, "categories": categories}
    joined = (_encode(key) + b":[\n" + b",\n".join(rows) + b"\n]" for key, rows in parts.items())
    yield "annotations.json", b"{" + b",\n".join(joined) + b"}\n"


def _annotation(one: ObjectRecord, box: Sequence[float], labels: Labels) -> dict[str, Any]:
    left, top, right, bottom = box
    ltwh = rounded(np.array([left, top, right - left, bottom - top]), steps=BOX_STEPS)
    area = float(rounded(np.array([ltwh[2] * ltwh[3]]), steps=BOX_STEPS)[0])
    found: dict[str, Any] = {"category_id": labels.number(one.label), "bbox": ltwh, "area": area, "iscrowd": 0}
    if one.mask is not None:
        height, width = one.mask["size"]
        mask = decode_mask(one.mask["counts"], size_wh=(width, height))
        found |= {"segmentation": one.mask, "area": mask.area}
    elif one.corners is not None:
        found["segmentation"] = [[value for point in one.corners for value in point]]
        found["area"] = float(rounded(polygon_areas(np.array([one.corners], np.float64)), steps=BOX_STEPS)[0])
    found["score"] = one.confidence
    return found if one.track_id < 0 else {**found, "track_id": one.track_id}


def _yolo(records: Iterable[HarvestRecord], labels: Labels, url: str, known: Container[str]) -> Iterator[Document]:
    del url
    for record in records:
        path = label_path(record.image)
        if path not in known:
            yield (
                path,
                "".join(_yolo_line(one, box, record.size, labels) for one, box in _boxes(record, labels)).encode(),
            )
    names = "".join(f"  {number}: {_encode(name).decode()}\n" for number, name in enumerate(labels.names))
    text = f"# Split off images for validation before you train.\ntrain: {IMAGES}\nval: {IMAGES}\nnames:"
    yield "data.yaml", (f"{text}\n{names}" if names else f"{text} {{}}\n").encode()


def _yolo_line(one: ObjectRecord, box: Sequence[float], size: Sequence[int], labels: Labels) -> str:
    left, top, right, bottom = box
    width, height = size
    middle = np.array([(left + right) / 2 / width, (top + bottom) / 2 / height])
    spans = np.array([(right - left) / width, (bottom - top) / height])
    numbers = rounded(np.concatenate([middle, spans]), steps=_FRACTION_STEPS)
    return f"{labels.number(one.label)} {' '.join(f'{number:.6f}' for number in numbers)}\n"


def _label_studio(
    records: Iterable[HarvestRecord], labels: Labels, url: str, known: Container[str]
) -> Iterator[Document]:
    del known
    tasks = [_encode(_task(record, labels, url)) for record in records]
    yield "tasks.json", b"[\n" + b",\n".join(tasks) + b"\n]\n"
    rows = "".join(f"    <Label value={quoteattr(name)}/>\n" for name in labels.names)
    yield (
        "label_config.xml",
        (
            '<View>\n  <Image name="image" value="$image"/>\n'
            f'  <RectangleLabels name="label" toName="image">\n{rows}  </RectangleLabels>\n</View>\n'
        ).encode(),
    )


def _task(record: HarvestRecord, labels: Labels, url: str) -> Mapping[str, Any]:
    width, height = record.size
    results = []
    for number, (one, (left, top, right, bottom)) in enumerate(_boxes(record, labels)):
        numbers = np.array([left / width, top / height, (right - left) / width, (bottom - top) / height]) * 100
        x, y, wide, high = rounded(numbers, steps=_PERCENT_STEPS)
        value = {"x": x, "y": y, "width": wide, "height": high, "rotation": 0, "rectanglelabels": [one.label]}
        results.append(
            {
                "id": f"box{number}",
                "type": "rectanglelabels",
                "from_name": "label",
                "to_name": "image",
                "original_width": width,
                "original_height": height,
                "image_rotation": 0,
                "score": one.confidence,
                "value": value,
            }
        )
    reasons = [one.reason for one in record.reasons]
    data = {"image": f"{url}{record.image}", "stream": record.stream, "frame": record.frame, "time": record.time}
    return {
        "data": {**data, "harvest_score": record.score, "reasons": ", ".join(reasons)},
        "meta": {"reasons": record.reasons},
        "predictions": [{"model_version": "sightline", "score": record.score, "result": results}],
    }


def _cvat(records: Iterable[HarvestRecord], labels: Labels, url: str, known: Container[str]) -> Iterator[Document]:
    del url, known
    names = "".join(f"<label><name>{escape(name)}</name><attributes></attributes></label>\n" for name in labels.names)
    parts = ['<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n<version>1.1</version>\n']
    parts.append(f"<meta><task><labels>\n{names}</labels></task></meta>\n")
    for number, record in enumerate(records):
        width, height = record.size
        parts.append(f'<image id="{number}" name={quoteattr(record.image)} width="{width}" height="{height}">\n')
        for one, (left, top, right, bottom) in _boxes(record, labels):
            place = f'xtl="{left:.2f}" ytl="{top:.2f}" xbr="{right:.2f}" ybr="{bottom:.2f}"'
            parts.append(f'<box label={quoteattr(one.label)} source="auto" occluded="0" {place} z_order="0"></box>\n')
        parts.append("</image>\n")
    yield "annotations.xml", "".join([*parts, "</annotations>\n"]).encode()


_WRITERS: Mapping[Format, Writer] = {"coco": _coco, "yolo": _yolo, "label_studio": _label_studio, "cvat": _cvat}
