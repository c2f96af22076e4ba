"""Readers of recorded detections: MOT text, KITTI labels, JSON lines."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from sightline.errors import ConfigurationError
from sightline.media.shapes import Mask
from sightline_plugins.replay.files import matching_files, plain_name, read_data
from sightline_plugins.sinks.records import Attribute, FrameRecord, MaskRecord, Numbers, ObjectRecord, decode_mask

MAX_CLASS = 65_535


@dataclass(slots=True, eq=False)
class RecordedObject:
    """One line of a recording, `frame` counted from 0 and `xyxy` in pixels; checked when it is made.

    `parent` is the object it was found on. `keypoints` (K, 3), `corners` (4, 2), `mask` and `embedding` (D,) are as in
    `Objects`. Raises ValueError with the mistake and the allowed values.
    """

    frame: int
    xyxy: tuple[float, float, float, float]
    label: str
    confidence: float = 1.0
    class_id: int | None = None
    track_id: int = -1
    attributes: dict[str, Attribute] | None = None
    parent: RecordedObject | None = None
    keypoints: npt.NDArray[np.float32] | None = None
    corners: npt.NDArray[np.float32] | None = None
    mask: Mask | None = None
    embedding: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        left, top, right, bottom = self.xyxy
        if self.frame < 0:
            raise ValueError(f"there is no frame {self.frame}: the first is 0 (1 in MOT text)")
        if not all(map(math.isfinite, (*self.xyxy, self.confidence))):
            raise ValueError("a number is infinite or not a number")
        if right < left or bottom < top:
            raise ValueError(f"the box [{left:g}, {top:g}, {right:g}, {bottom:g}] has a negative width or height")
        if self.class_id is not None and not 0 <= self.class_id <= MAX_CLASS:
            raise ValueError(f"class_id is {self.class_id}: it must be from 0 to {MAX_CLASS}")


_decode_frame = msgspec.json.Decoder(FrameRecord).decode


def read_json_lines(files: Iterable[tuple[Path, bytes]], *, stream: str) -> list[RecordedObject]:
    """Return the objects of a stream; where the files hold a single stream, those of that one, whatever its name.

    A truncated last line, as a killed writer leaves it, is skipped. Raises ConfigurationError with file and line.
    """
    frames: dict[str, list[RecordedObject]] = {}
    for path, data in files:
        *lines, rest = data.split(b"\n")
        if not _is_truncated(rest):
            lines.append(rest)
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


def _is_truncated(line: bytes) -> bool:
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
    """Return the number of a parent whose own chain of parents ends. Raises ValueError for others."""
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
    """Return rows of numbers as an array (rows, width); null is NaN."""
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


RecordedFormat = Literal["mot", "kitti", "jsonl"]

UNLABELLED = "object"
IGNORED_BY_KITTI = "DontCare"
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
KITTI_FIELDS = (15, 16)
"""Fields of an object without and with its score; the tracking benchmark puts frame and track before them."""
KITTI_FIELDS_WITH_TRACK = 17
"""Fields of per-frame files as DeepStream writes them: the track after the label, and the score."""

_NUMBER_AT_END = re.compile(r"(\d+)$")


def read_recording(path: Path, *, file_format: RecordedFormat | None, stream: str) -> list[RecordedObject]:
    """Return the objects of a stream in a recording; the format is recognised when it is not given.

    `path` may be a pattern that matches the parts of a rotated recording, which may be compressed. Raises
    ConfigurationError with file and line.
    """
    if path.is_dir():
        return _read_kitti_folder(path)
    files = [(file, _data(file)) for file in matching_files(path)]
    if not files:
        raise ConfigurationError(f"no file matches {path}")
    kind = file_format or _guess(*files[0])
    if kind == "jsonl":
        return read_json_lines(files, stream=stream)
    parse = _mot_object if kind == "mot" else _kitti_object
    return [item for file, data in files for item in _parsed(file, _lines(file, data), parse)]


def _data(path: Path) -> bytes:
    try:
        return read_data(path)
    except OSError as error:
        raise ConfigurationError(f"the recording {path} cannot be read: {error.strerror or error}") from error


def _lines(path: Path, data: bytes) -> list[str]:
    try:
        return data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"the recording {path} cannot be read: it is not UTF-8 text") from error


def _guess(path: Path, data: bytes) -> RecordedFormat:
    first = data.lstrip().partition(b"\n")[0]
    if plain_name(path).suffix.lower() in JSON_SUFFIXES or first.startswith(b"{"):
        return "jsonl"
    return "mot" if b"," in first or not first else "kitti"


def _parsed(
    path: Path, lines: Sequence[str], parse: Callable[[str], RecordedObject | None]
) -> Iterator[RecordedObject]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                item = parse(line)
            except ValueError as error:
                raise ConfigurationError(f"{path}, line {number}: {error}") from error
            if item is not None:
                yield item


def _mot_object(line: str) -> RecordedObject:
    """Parse `frame,id,left,top,width,height,confidence,...`, with frames counted from 1."""
    fields = line.split(",")
    if len(fields) < 6:
        raise ValueError(f"{len(fields)} fields: MOT text is frame,id,left,top,width,height,confidence")
    left, top, width, height, *rest = (_number(field) for field in fields[2:7])
    confidence = rest[0] if rest and rest[0] != -1 else 1.0
    return RecordedObject(
        frame=_whole(fields[0]) - 1,
        xyxy=(left, top, left + width, top + height),
        label=UNLABELLED,
        confidence=confidence,
        track_id=_whole(fields[1]),
    )


def _kitti_object(line: str) -> RecordedObject | None:
    """Parse `frame track type truncated occluded alpha left top right bottom ...`, as in the tracking benchmark."""
    fields = line.split()
    if len(fields) - 2 not in KITTI_FIELDS:
        raise ValueError(f"{len(fields)} fields: KITTI tracking labels have 17, or 18 with a score")
    return _kitti(fields[2:], frame=_whole(fields[0]), track_id=_whole(fields[1]))


def _read_kitti_folder(folder: Path) -> list[RecordedObject]:
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise ConfigurationError(f"the folder {folder} holds no .txt file: KITTI labels are one for each frame")
    return [item for file in files for item in _read_kitti_frame(file)]


def _read_kitti_frame(file: Path) -> list[RecordedObject]:
    """Read a file of KITTI's object benchmark; the number at the end of its name is that of the frame."""
    number = _NUMBER_AT_END.search(file.stem)
    if number is None:
        raise ConfigurationError(f"{file}: the name must end in the number of the frame, as in 000012.txt")
    frame = int(number[1])

    def parse(line: str) -> RecordedObject | None:
        fields = line.split()
        if len(fields) == KITTI_FIELDS_WITH_TRACK:
            return _kitti([fields[0], *fields[2:]], frame=frame, track_id=_whole(fields[1]))
        if len(fields) not in KITTI_FIELDS:
            raise ValueError(f"{len(fields)} fields: KITTI labels have 15, or 16 with a score")
        return _kitti(fields, frame=frame, track_id=-1)

    return list(_parsed(file, file.read_text("utf-8").splitlines(), parse))


def _kitti(fields: Sequence[str], *, frame: int, track_id: int) -> RecordedObject | None:
    if fields[0] == IGNORED_BY_KITTI:
        return None
    left, top, right, bottom = (_number(field) for field in fields[4:8])
    confidence = _number(fields[15]) if len(fields) > 15 else 1.0
    return RecordedObject(frame, (left, top, right, bottom), fields[0], confidence, track_id=track_id)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text.strip()!r} is no number") from None


def _whole(text: str) -> int:
    number = _number(text)
    if not number.is_integer():
        raise ValueError(f"{text.strip()!r} is not an integer")
    return int(number)
