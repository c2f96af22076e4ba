"""`frames.jsonl`: what is known of each frame that is kept, a line each, and of frames that were replaced.

The file is the truth about the folder: images without a line are removed, and pre-labels are written from it. It grows
by whole lines. The first one has the labels; `{"removed": NAME}` takes a frame back, until the file is written anew
without both.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import msgspec
import numpy as np

from sightline.errors import OutputError
from sightline.graph.ownership import HARVEST_BEGINNING
from sightline.media import Origin
from sightline.media.events import Scalar
from sightline_plugins.harvest.selection import Candidate, Content, Kept
from sightline_plugins.harvest.similarity import fractions
from sightline_plugins.sinks.records import FrameRecord

VERSION = 1
_LEVELS = 127
"""Embeddings are kept in steps of 1/127 in each dimension, which changes a cosine by less than 0.01."""
_REMOVED = b'{"removed":'


class ReasonRecord(msgspec.Struct, omit_defaults=True):
    """One reason for which a frame is kept, its score (0..1), and what it is about."""

    reason: str
    score: float
    about: dict[str, Scalar] = {}


class HarvestRecord(FrameRecord, kw_only=True, omit_defaults=True):
    """A frame that is kept: what JSON lines say of it, its image, and why it is kept.

    `score` joins those of all `reasons`, of which the first is the main one. `timeline`, `time_ns`, `phash` and
    `vectors` are for comparing later frames with it.
    """

    image: str
    score: float
    reasons: list[ReasonRecord]
    timeline: str = ""
    time_ns: int
    phash: str
    vectors: tuple[str, ...] = ()


class Labels:
    """The labels of pre-labels, and their numbers from 0: those of the first detector, then those of others.

    With `fixed` ones there are no others.
    """

    def __init__(self, fixed: Sequence[str] | None = None) -> None:
        self.names = list(fixed or ())
        self._is_fixed = fixed is not None
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def learn(self, names: Iterable[str]) -> None:
        """Give a number to each label that has none."""
        for name in () if self._is_fixed else names:
            if name not in self._numbers:
                self._numbers[name] = len(self.names)
                self.names.append(name)

    def learn_origins(self, origins: Iterable[Origin]) -> None:
        """Give numbers to all labels of detectors, in their order."""
        for origin in origins:
            self.learn(origin.labels)

    def number(self, name: str) -> int | None:
        """The number of a label; None when it is none of the fixed ones."""
        return self._numbers.get(name)


def header_line(labels: Labels) -> bytes:
    """Return the line with the labels."""
    return HARVEST_BEGINNING + msgspec.json.encode(VERSION) + b',"labels":' + msgspec.json.encode(labels.names) + b"}\n"


def removed_line(image: str) -> bytes:
    """Return the line that takes a frame back."""
    return _REMOVED + msgspec.json.encode(image) + b"}\n"


def record_line(record: HarvestRecord) -> bytes:
    """Return the line of a frame."""
    return msgspec.json.encode(record) + b"\n"


_decoder = msgspec.json.Decoder(HarvestRecord)


def alive_lines(lines: Iterable[bytes], labels: Labels, *, name: str) -> dict[str, bytes]:
    """Return the lines of frames that are kept, by the names of their images; labels are learned.

    Raises OutputError, with the name of the file, for lines that `harvest` has not written.
    """
    alive: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        try:
            if line.startswith(HARVEST_BEGINNING):
                header: Mapping[str, Any] = msgspec.json.decode(line)
                if header["sightline_harvest"] != VERSION:
                    raise ValueError("it is of another version of Sightline")
                labels.learn(header["labels"])
            elif line.startswith(_REMOVED):
                alive.pop(msgspec.json.decode(line)["removed"], None)
            else:
                alive[_decoder.decode(line).image] = line
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError) as error:
            text = f"cannot go on with {name}: line {number} is not one of `harvest` ({error})"
            raise OutputError(f"{text}: name another folder", reason="its folder holds something else") from error
    return alive


def decoded(lines: Iterable[bytes]) -> Iterator[HarvestRecord]:
    """Yield the records of lines of frames."""
    return (_decoder.decode(line) for line in lines)


def kept_of(record: HarvestRecord, labels: Labels) -> Kept:
    """Return what a record says for the selection. Raises ValueError where it is not what `harvest` writes."""
    if record.image != PurePath(record.image).name or record.image.startswith("."):
        raise ValueError(f"{record.image!r} is no name of an image")
    vectors = [np.frombuffer(base64.b64decode(one), np.int8).astype(np.float32) / _LEVELS for one in record.vectors]
    boxes = np.array([one.box for one in record.objects], np.float32).reshape(-1, 4)
    numbers = [labels.number(one.label) for one in record.objects]
    content = Content(
        int(record.phash, 16),
        fractions(boxes, size_wh=record.size),
        np.array([-1 if number is None else number for number in numbers], np.int64),
        np.stack(vectors) if vectors else np.empty((0, 0), np.float32),
    )
    main = record.reasons[0].reason
    candidate = Candidate(record.stream, record.timeline, record.time_ns, main, record.score)
    return Kept(record.image, candidate, content)


def written_vectors(content: Content) -> tuple[str, ...]:
    """Return embeddings as a record holds them."""
    levels = np.clip(np.rint(content.vectors * _LEVELS), -_LEVELS, _LEVELS).astype(np.int8)
    return tuple(base64.b64encode(row.tobytes()).decode() for row in levels)
