"""Readers of recorded detections: MOT text, KITTI labels, JSON lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from sightline.errors import ConfigurationError
from sightline_plugins.infer.recorded.item import RecordedObject
from sightline_plugins.infer.recorded.json_lines import read_json_lines

RecordedFormat = Literal["mot", "kitti", "jsonl"]

UNLABELLED = "object"
IGNORED_BY_KITTI = "DontCare"
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
KITTI_FIELDS = (15, 16)
"""An object without and with its score; the tracking benchmark puts frame and track before it."""
KITTI_FIELDS_WITH_TRACK = 17
"""Files a frame as DeepStream writes them: the track after the label, and the score."""

_NUMBER_AT_END = re.compile(r"(\d+)$")


def read_recording(path: Path, *, file_format: RecordedFormat | None, stream: str) -> list[RecordedObject]:
    """The objects of a stream in a recording; the format is guessed when it is not given.

    Raises ConfigurationError that names the file and the line.
    """
    try:
        if path.is_dir():
            return _read_kitti_folder(path)
        data = path.read_bytes()
        kind = file_format or _guess(path, data)
        if kind == "jsonl":
            return read_json_lines(path, data, stream=stream)
        lines = data.decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the recording {path} can not be read: {_reason(error)}") from error
    return list(_each(path, lines, _mot_object if kind == "mot" else _kitti_object))


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return "it is no UTF-8 text" if isinstance(error, UnicodeDecodeError) else (error.strerror or str(error))


def _guess(path: Path, data: bytes) -> RecordedFormat:
    first = data.lstrip().partition(b"\n")[0]
    if path.suffix.lower() in JSON_SUFFIXES or first.startswith(b"{"):
        return "jsonl"
    return "mot" if b"," in first or not first else "kitti"


def _each(path: Path, lines: Sequence[str], parse: Callable[[str], RecordedObject | None]) -> Iterator[RecordedObject]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                item = parse(line)
            except ValueError as error:
                raise ConfigurationError(f"{path}, line {number}: {error}") from error
            if item is not None:
                yield item


def _mot_object(line: str) -> RecordedObject:
    """`frame,id,left,top,width,height,confidence,...`, frames counted from 1."""
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
    """`frame track type truncated occluded alpha left top right bottom ...`, as the tracking benchmark has it."""
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
    """A file of KITTI's object benchmark; the number at the end of its name is that of the frame."""
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

    return list(_each(file, file.read_text("utf-8").splitlines(), parse))


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
        raise ValueError(f"{text.strip()!r} is no whole number")
    return int(number)
