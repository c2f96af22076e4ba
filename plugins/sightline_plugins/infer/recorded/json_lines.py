"""Reader of the JSON lines that `jsonl` writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from sightline.errors import ConfigurationError
from sightline.media.shapes import Mask
from sightline_plugins.infer.recorded.item import RecordedObject
from sightline_plugins.sinks.details import MaskRecord
from sightline_plugins.sinks.records import FrameRecord, Numbers, ObjectRecord
from sightline_plugins.sinks.rle import decode_mask

_decode_frame = msgspec.json.Decoder(FrameRecord).decode


def read_json_lines(path: Path, data: bytes, *, stream: str) -> list[RecordedObject]:
    """The objects of a stream, or of all lines where they are those of one stream, whatever its name.

    A last line that was cut, as a killed writer leaves it, is passed over. Raises ConfigurationError that names the
    file and the line.
    """
    *lines, rest = data.split(b"\n")
    if not _is_cut(rest):
        lines.append(rest)
    frames: dict[str, list[RecordedObject]] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                record = _decode_frame(line)
                frames.setdefault(record.stream, []).extend(_objects(record))
            except (ValueError, msgspec.MsgspecError) as error:
                raise ConfigurationError(f"{path}, line {number}: {error}") from error
    if stream not in frames and len(frames) == 1:
        return next(iter(frames.values()))
    return frames.get(stream, [])


def _is_cut(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return line.startswith(b"{")
    return False


def _objects(record: FrameRecord) -> list[RecordedObject]:
    parents = [item.parent for item in record.objects]
    found = [_object(item, frame=record.frame) for item in record.objects]
    for own, parent in zip(found, parents, strict=True):
        if parent >= 0:
            own.parent = found[_checked(parent, parents)]
    return found


def _checked(parent: int, parents: Sequence[int]) -> int:
    """The number of a parent, if its own line of parents comes to an end."""
    ancestor = parent
    for _ in parents:
        if ancestor < 0:
            return parent
        if ancestor >= len(parents):
            raise ValueError(f"parent is {ancestor}: the line has {len(parents)} objects, counted from 0")
        ancestor = parents[ancestor]
    if ancestor < 0:
        return parent
    raise ValueError(f"parent {parent} is its own parent: parents must not go in circles")


def _object(item: ObjectRecord, *, frame: int) -> RecordedObject:
    if len(item.box) != 4:
        raise ValueError(f"a box has {len(item.box)} numbers: it must be [left, top, right, bottom]")
    left, top, right, bottom = (float("nan") if side is None else side for side in item.box)
    return RecordedObject(
        frame=frame,
        xyxy=(left, top, right, bottom),
        label=item.label,
        confidence=float("nan") if item.confidence is None else item.confidence,
        class_id=item.class_id,
        track_id=item.track_id,
        attributes=item.attributes,
        keypoints=None if item.keypoints is None else _rows(item.keypoints, width=3, what="a keypoint", of="[x, y, c]"),
        corners=None if item.corners is None else _corners(item.corners),
        mask=None if item.mask is None else _mask(item.mask),
        embedding=None if item.embedding is None else np.array(item.embedding, np.float32),
    )


def _rows(rows: Sequence[Numbers], *, width: int, what: str, of: str) -> npt.NDArray[np.float32]:
    """Rows of numbers as an array (rows, width); null is NaN."""
    for row in rows:
        if len(row) != width:
            raise ValueError(f"{what} has {len(row)} numbers: it must be {of}")
    return np.array([[np.nan if number is None else number for number in row] for row in rows], np.float32).reshape(
        -1, width
    )


def _corners(rows: Sequence[Numbers]) -> npt.NDArray[np.float32]:
    if len(rows) != 4:
        raise ValueError(f"an oriented box has {len(rows)} corners: it must have 4")
    return _rows(rows, width=2, what="a corner", of="[x, y]")


def _mask(record: MaskRecord) -> Mask:
    size, counts = record.get("size"), record.get("counts")
    if not (isinstance(size, list) and len(size) == 2 and isinstance(counts, str)):
        raise ValueError('a mask must be {"size": [height, width], "counts": "..."}, compressed as COCO does')
    height, width = size
    if not (isinstance(height, int) and isinstance(width, int)):
        raise ValueError(f"the size of a mask is {size}: it must be [height, width] in pixels")
    return decode_mask(counts, size_wh=(width, height))
