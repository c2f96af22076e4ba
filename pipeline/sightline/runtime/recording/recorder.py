"""Record a run: the encoded images of its streams, the batches in which they entered the first step, and a digest of
what came out.

Whoever calls only queues; one thread writes. It takes packets from the rings of the streams, where the decoders' images
have their numbers from. Of a frame without such a packet (test patterns, images, streams without key frames) the pixels
are kept, compressed without loss. The queue is short, so that the run waits for a slow disk; when it can write no more,
the run goes on, and the recording ends with what was written whole.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from sightline.errors import EndOfLink, LinkClosed
from sightline.graph import Clock, Message, MessageKind, Outputs, PacketRing, Packets
from sightline.graph.masked import masked
from sightline.graph.outputs import output_error
from sightline.graph.tree import PipelineDescription
from sightline.media import Batch, Frame, Stream, Surface
from sightline.redaction import redact
from sightline.runtime.recording.digest import digests_of
from sightline.runtime.recording.file import (
    BatchRecord,
    FrameRow,
    InputRecord,
    Kind,
    NoteRecord,
    PacketRecord,
    PixelsRecord,
    RecordWriter,
    ResultsRecord,
    StreamRecord,
)
from sightline.runtime.recording.head import head_of_run
from sightline.runtime.scheduling.link import Link, WorkItem, open_link
from sightline.runtime.threads import Worker

_RING_NS = 60_000_000_000
_RING_BYTES = 256_000_000
_QUEUED = 8
_FLUSHED_NS = 500_000_000
_BUFFER_BYTES = 1 << 20
_END_SECONDS = 60.0
"""How long the end of a run waits for a disk that does not answer."""
_MOST_WRITTEN = 4096
"""How many packets a decoder may hold, generously, before their frames come."""
_FAST = 1
"""The level of zlib for pixels: they are many."""


@dataclass(slots=True)
class _Source:
    """What was written of a stream: `cursor` is its last packet that was looked at, `written` are the numbers of the
    last ones that are in the file, in their order.
    """

    number: int
    ring: PacketRing
    cursor: int = -1
    head: bytes = b""
    written: dict[int, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    epoch_ns: int
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    frames: tuple[Frame, ...]
    digests: Sequence[bytes]


_Task = _Taken | _Found | str


class RunRecorder(Worker):
    """Records one run into a file. `begin` and `end` are called once; the rest from any thread, in between."""

    def __init__(
        self,
        path: str,
        description: PipelineDescription,
        *,
        outputs: Outputs,
        packets: Packets,
        clock: Clock,
        post: Callable[[Message], None],
    ) -> None:
        super().__init__("record")
        self._path = outputs.path(path)
        self._description = description
        self._outputs = outputs
        self._packets = packets
        self._clock = clock
        self._post = post
        self._tasks: Link[_Task] = open_link(_QUEUED)
        self._flushed_ns = 0
        self._sources: dict[str, _Source] = {}
        self._writer: RecordWriter | None = None
        self._file: IO[bytes] | None = None
        self._failure: str | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def begin(self, *, engines: Mapping[str, Mapping[str, Any]]) -> None:
        """Open the file, and want packets, before any stream is opened; the models are. Raises OutputError."""
        raw = self._outputs.open_binary(self._path)
        self._file = cast("IO[bytes]", io.BufferedWriter(cast("io.RawIOBase", raw), _BUFFER_BYTES))
        try:
            self._writer = RecordWriter(self._file)
            head = head_of_run(self._description, began_ns=self._clock.epoch_ns(), engines=engines)
            self._writer.add(Kind.HEAD, head)
            self._writer.flush()
        except OSError as error:
            self._file.close()
            raise output_error(self._path, error, doing="write") from error
        self._wanted = self._packets.want(None, duration_ns=_RING_NS, limit_bytes=_RING_BYTES, with_heads=True)
        self.start()

    def take(self, item: WorkItem) -> None:
        """Record a batch that enters the first step."""
        if self._failure is None:
            item.work = batch = item.batch().shared()
            self._add(_Taken(self._clock.epoch_ns(), batch.frames))

    def add_results(self, batch: Batch) -> None:
        """Record what came out for a batch."""
        if self._failure is None:
            self._add(_Found(batch.frames, digests_of(batch)))

    def note(self, text: str) -> None:
        """Record why a replay cannot be equal from here on."""
        self._add(text)

    def end(self) -> None:
        """Write what is queued, and close the file. Harmless when called again, and when it has not begun."""
        self._tasks.sender.end()
        if self.running:
            self.wait(_END_SECONDS)

    def work(self) -> None:
        """Write until the end."""
        assert self._writer is not None
        assert self._file is not None
        try:
            self._write(self._writer)
        except Exception as error:  # noqa: BLE001  whatever it is, the run goes on, and nobody waits for this thread
            self._fail(error)
        self._tasks.receiver.close()
        self._wanted.close()
        try:
            self._file.close()
        except OSError as error:
            self._fail(error)

    def _add(self, task: _Task) -> None:
        with suppress(LinkClosed):
            self._tasks.sender.send(task)

    def _write(self, writer: RecordWriter) -> None:
        with suppress(EndOfLink):
            while True:
                task = self._tasks.receiver.receive()
                for source in self._sources.values():
                    self._add_packets_of(writer, source)
                self._do(writer, task)
                if self._clock.monotonic_ns() - self._flushed_ns > _FLUSHED_NS:
                    writer.flush()
                    self._flushed_ns = self._clock.monotonic_ns()
        writer.add(Kind.END)
        writer.flush()

    def _do(self, writer: RecordWriter, task: _Task) -> None:
        match task:
            case _Taken():
                rows = [self._row(writer, frame) for frame in task.frames]
                writer.add(Kind.BATCH, BatchRecord(task.epoch_ns, rows))
            case _Found():
                found = [
                    (self._source(writer, frame.stream).number, frame.index, digest)
                    for frame, digest in zip(task.frames, task.digests, strict=True)
                ]
                writer.add(Kind.RESULTS, ResultsRecord(found))
            case str():
                writer.add(Kind.NOTE, NoteRecord(redact(task)))

    def _source(self, writer: RecordWriter, stream: Stream) -> _Source:
        found = self._sources.get(stream.name)
        if found is None:
            described = self._description.sources.get(stream.name)
            options = {} if described is None else masked(described)
            found = self._sources[stream.name] = _Source(len(self._sources), self._packets.of(stream))
            writer.add(Kind.STREAM, StreamRecord(stream.name, stream.live, options), stream=found.number)
        return found

    def _add_packets_of(self, writer: RecordWriter, source: _Source) -> None:
        for packet in source.ring.after(source.cursor):
            source.cursor = packet.number
            head = packet.format.head
            if not head:
                continue
            if head is not source.head:
                source.head = head
                writer.add(Kind.INPUT, InputRecord(head, packet.format.tag), stream=source.number)
            body = PacketRecord(packet.number, packet.pts, packet.dts, packet.is_key, packet.data)
            writer.add(Kind.PACKET, body, stream=source.number)
            source.written[packet.number] = None
        while len(source.written) > _MOST_WRITTEN:
            del source.written[next(iter(source.written))]

    def _row(self, writer: RecordWriter, frame: Frame) -> FrameRow:
        """Return the row of a frame, whose packet or pixels are in the file."""
        source = self._source(writer, frame.stream)
        packet = frame.packet
        if packet is not None and packet > source.cursor:
            self._add_packets_of(writer, source)
        if packet not in source.written:
            packet = None
            writer.add(Kind.PIXELS, _pixels(frame.index, frame.surface), stream=source.number)
        return FrameRow(
            source.number,
            frame.index,
            frame.pts_ns,
            frame.capture_ns,
            None if frame.time_source is None else frame.time_source.value,
            frame.damaged,
            frame.altered.value,
            packet,
        )

    def _fail(self, error: Exception) -> None:
        if self._failure is not None:
            return
        cause = error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
        self._failure = cause = redact(cause)
        text = f"the recording {self._path} is not whole: {cause}; the run goes on without it"
        self._post(Message(MessageKind.WARNING, text))


def _pixels(index: int, surface: Surface) -> PixelsRecord:
    host = surface.to_host()
    planes = [zlib.compress(plane.tobytes(), _FAST) for plane in host.planes]
    return PixelsRecord(index, host.format.value, host.size_wh, host.matrix.value, host.range.value, planes)
