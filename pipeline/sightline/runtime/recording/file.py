"""The file of a recording: records that follow one another, each whole or not there.

It begins with eight bytes that say what it is. A record is a header (its kind, the number of its stream, its length and
CRC-32, little-endian) and a body in MessagePack. A file that was cut off (a crash, a full disk) is good up to its last
whole record. Streams have numbers in the order in which they came.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec

from sightline.errors import ConfigurationError
from sightline.graph.ownership import RECORDING_BEGINNING

MAGIC: Final = RECORDING_BEGINNING + b"\x01\n"
"""How recordings begin; the seventh byte is the version of the format."""
SUFFIX: Final = ".slr"
_HEADER = struct.Struct("<BHII")
_LARGEST_BODY = 1 << 30


class Kind(IntEnum):
    """What a record is."""

    HEAD = 1
    STREAM = 2
    INPUT = 3
    PACKET = 4
    PIXELS = 5
    BATCH = 6
    RESULTS = 7
    NOTE = 8
    END = 9


class Head(msgspec.Struct, frozen=True):
    """What was run: the pipeline as plain data without secrets, versions of what computed, the SHA-256 of the files
    that its steps read, and what computed the models, by the ids of the steps. `began_ns` is a time of day.
    """

    pipeline: dict[str, Any]
    began_ns: int
    versions: dict[str, str]
    files: dict[str, str]
    engines: dict[str, dict[str, Any]]


class StreamRecord(msgspec.Struct, frozen=True, array_like=True):
    """A stream: its name, whether it is live, and the options of its source that packets do not tell."""

    name: str
    is_live: bool
    options: dict[str, Any]


class InputRecord(msgspec.Struct, frozen=True, array_like=True):
    """An input was opened: `head` is the beginning of a Matroska file, which describes the video as its container did,
    and `tag` the codec's tag there. Packets that follow are of it.
    """

    head: bytes
    tag: str


class PacketRecord(msgspec.Struct, frozen=True, array_like=True):
    """An encoded image: its number in the run, its times in ticks of its container, and its bytes."""

    number: int
    pts: int
    dts: int
    is_key: bool
    data: bytes


class PixelsRecord(msgspec.Struct, frozen=True, array_like=True):
    """The pixels of a frame of which no packet is kept: planes, each compressed by zlib, of a surface."""

    index: int
    format: str
    size_wh: tuple[int, int]
    matrix: str
    range: str
    planes: list[bytes]


class FrameRow(msgspec.Struct, frozen=True, array_like=True):
    """A frame as it entered the first step: fields of `Frame`. `packet` is None where its pixels are kept."""

    stream: int
    index: int
    pts_ns: int
    capture_ns: int | None
    time_source: str | None
    damaged: bool
    altered: int
    packet: int | None


class BatchRecord(msgspec.Struct, frozen=True, array_like=True):
    """A batch as it entered the first step, at a time of day in nanoseconds."""

    epoch_ns: int
    frames: list[FrameRow]


class ResultsRecord(msgspec.Struct, frozen=True, array_like=True):
    """What came out at the end: stream, index and digest of each frame."""

    frames: list[tuple[int, int, bytes]]


class NoteRecord(msgspec.Struct, frozen=True, array_like=True):
    """Why a replay cannot be equal from here on."""

    text: str


Body = Head | StreamRecord | InputRecord | PacketRecord | PixelsRecord | BatchRecord | ResultsRecord | NoteRecord
_One = TypeVar("_One")
_ENCODER = msgspec.msgpack.Encoder()


class RecordWriter:
    """Appends records to an open file. For one thread. Raises OSError, after which the file ends with the last record
    that was flushed whole.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        file.write(MAGIC)
        self.size_bytes = len(MAGIC)

    def add(self, kind: Kind, body: Body | None = None, *, stream: int = 0) -> None:
        """Append a record."""
        data = b"" if body is None else _ENCODER.encode(body)
        self._file.write(_HEADER.pack(kind, stream, len(data), zlib.crc32(data)))
        self._file.write(data)
        self.size_bytes += _HEADER.size + len(data)

    def flush(self) -> None:
        """Give everything to the system."""
        self._file.flush()


@dataclass(frozen=True, slots=True)
class Place:
    """Where the body of a record is in the file."""

    kind: Kind
    at: int
    length: int


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording, as far as it is small: everything but packets and pixels, of which the places are known.

    `contents` holds for each stream, by its number, the places of inputs, packets and pixels in their order; `is_whole`
    says that it was closed, not cut off.
    """

    path: Path
    head: Head
    streams: tuple[StreamRecord, ...]
    contents: tuple[tuple[Place, ...], ...]
    batches: tuple[BatchRecord, ...]
    results: Mapping[tuple[int, int], bytes]
    notes: tuple[str, ...]
    is_whole: bool

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Recording:
        """Read the index of a file; again only when it has changed. Raises ConfigurationError when it is none."""
        where = Path(path)
        try:
            about = where.stat()
            return _read(where, (about.st_ino, about.st_size, about.st_mtime_ns))
        except OSError as error:
            raise ConfigurationError(f"the recording {where} cannot be read: {error.strerror}") from error

    def number_of(self, stream: str) -> int:
        """Return the number of a stream. Raises ConfigurationError when it is not in the recording."""
        names = [one.name for one in self.streams]
        if stream not in names:
            raise ConfigurationError(
                f"there is no stream {stream!r} in {self.path}; streams: {', '.join(names) or 'none'}"
            )
        return names.index(stream)

    def frames_of(self, number: int) -> list[FrameRow]:
        """Return the frames of a stream in their order."""
        return [row for batch in self.batches for row in batch.frames if row.stream == number]

    def bodies(self, number: int) -> Iterator[InputRecord | PacketRecord | PixelsRecord]:
        """Yield what is recorded of a stream, reading it as it is asked for. Raises ConfigurationError."""
        types: Mapping[Kind, type[InputRecord | PacketRecord | PixelsRecord]] = {
            Kind.INPUT: InputRecord,
            Kind.PACKET: PacketRecord,
            Kind.PIXELS: PixelsRecord,
        }
        with self.path.open("rb") as file:
            for place in self.contents[number]:
                file.seek(place.at)
                yield _decoded(file.read(place.length), types[place.kind], path=self.path)


@dataclass(slots=True)
class _Index:
    head: Head | None = None
    streams: list[StreamRecord] = field(default_factory=list)
    contents: list[list[Place]] = field(default_factory=list)
    batches: list[BatchRecord] = field(default_factory=list)
    results: dict[tuple[int, int], bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    is_whole: bool = False


@lru_cache(maxsize=4)
def _read(path: Path, stamp: tuple[int, ...]) -> Recording:
    del stamp
    index = _Index()
    with path.open("rb") as file:
        begin = file.read(len(MAGIC))
        if begin != MAGIC:
            is_other = len(begin) == len(MAGIC) and begin.startswith(RECORDING_BEGINNING)
            why = f"it has format {begin[6]}, and this version reads {MAGIC[6]}" if is_other else "it is no recording"
            raise ConfigurationError(f"{path} cannot be replayed: {why} (`sightline run CONFIG --record {path.name}`)")
        for place, stream, body in _records(file):
            _add(index, place, stream, body, path=path)
    if index.head is None:
        raise ConfigurationError(f"{path} cannot be replayed: it was cut off before anything was recorded")
    return Recording(
        path,
        index.head,
        tuple(index.streams),
        tuple(map(tuple, index.contents)),
        tuple(index.batches),
        index.results,
        tuple(index.notes),
        index.is_whole,
    )


def _records(file: IO[bytes]) -> Iterator[tuple[Place, int, bytes]]:
    """Yield the whole records, with the bodies of those that are needed at once."""
    while len(header := file.read(_HEADER.size)) == _HEADER.size:
        number, stream, length, crc = _HEADER.unpack(header)
        if number not in Kind.__members__.values() or length > _LARGEST_BODY:
            return
        body = file.read(length)
        if len(body) < length or zlib.crc32(body) != crc:
            return
        yield Place(Kind(number), file.tell() - length, length), stream, body


def _add(index: _Index, place: Place, stream: int, body: bytes, *, path: Path) -> None:
    match place.kind:
        case Kind.HEAD:
            index.head = _decoded(body, Head, path=path)
        case Kind.STREAM:
            index.streams.append(_decoded(body, StreamRecord, path=path))
            index.contents.append([])
        case Kind.BATCH:
            index.batches.append(_decoded(body, BatchRecord, path=path))
        case Kind.RESULTS:
            found = _decoded(body, ResultsRecord, path=path)
            index.results.update({(number, frame): digest for number, frame, digest in found.frames})
        case Kind.NOTE:
            index.notes.append(_decoded(body, NoteRecord, path=path).text)
        case Kind.END:
            index.is_whole = True
        case _:
            index.contents[stream].append(place)


def _decoded(body: bytes, kind: type[_One], *, path: Path) -> _One:
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, IndexError) as error:
        raise ConfigurationError(f"{path} cannot be replayed: it is damaged ({error})") from error
