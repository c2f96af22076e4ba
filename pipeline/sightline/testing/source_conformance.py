"""The contract of sources, as a test class that any source can be put through.

    class TestMySource(SourceConformance):
        source = MySource(uri="...")

An assertion that fails says in a sentence which promise was broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice, pairwise
from typing import ClassVar

import numpy as np

from sightline.errors import StreamError
from sightline.graph import SourceElement, SourceReader
from sightline.media import Frame, Stream
from sightline.testing.run import site_for

_STOP_SECONDS = 60.0


class SourceConformance:
    """Tests of the `SourceElement` and `SourceReader` contracts. A subclass sets `source`; pytest collects it by its
    name.

    The input delivers at least three frames each time that it is opened. A source that reads a server overrides
    `input`, a context in which the server runs. `unreadable` is the source with an input that cannot be opened.
    """

    source: ClassVar[SourceElement]
    unreadable: ClassVar[SourceElement | None] = None

    @contextmanager
    def input(self) -> Iterator[SourceElement]:
        """Yield the source while its input can be read."""
        yield self.source

    def test_it_is_a_value(self) -> None:
        """A source is immutable, and reads back equal from what it is written as."""
        with self.input() as source:
            written = source.model_dump(mode="json", by_alias=True, exclude_unset=True)
            assert type(source).model_validate(written) == source, f"it does not read back equal from {written}"
            assert source.model_config.get("frozen"), "a source must be frozen"

    def test_accepts_answers_for_any_text(self) -> None:
        """`accepts` raises nothing, whatever a user writes."""
        for uri in ("", "x", "://", "rtsp://[", "http://user:secret@host:99999/%", "a\x00b", "/", "~", "C:\\clip.mp4"):
            assert isinstance(type(self.source).accepts(uri), bool), f"accepts({uri!r}) is neither True nor False"

    def test_frames_are_numbered_and_their_timestamps_rise(self) -> None:
        """Indices count from 0, timestamps rise, and every frame is of this stream."""
        with self.reading() as (reader, stream):
            frames = list(islice(reader.frames(), 50))
            assert len(frames) >= 3, f"the input delivered {len(frames)} frames: the tests need three"
            assert [frame.index for frame in frames] == list(range(len(frames))), "indices do not count from 0"
            times = [frame.pts_ns for frame in frames]
            assert all(isinstance(pts_ns, int) for pts_ns in times), "timestamps must be whole nanoseconds"
            assert all(one < other for one, other in pairwise(times)), f"times do not rise: {times}"
            assert {frame.stream for frame in frames} == {stream}, "a frame belongs to another stream"

    def test_a_frame_is_not_changed_by_those_that_follow(self) -> None:
        """Pixels belong to the frame: a reader does not write into memory that it has handed on."""
        with self.reading() as (reader, _):
            frames = reader.frames()
            first = next(frames)
            before = _pixels(first)
            list(islice(frames, 5))
            after = _pixels(first)
            same = [np.array_equal(one, other) for one, other in zip(before, after, strict=True)]
            assert all(same), "the pixels of a frame changed after it was handed on"

    def test_each_reader_begins_again(self) -> None:
        """A second attempt counts from 0, too."""
        for _ in range(2):
            with self.reading() as (reader, _):
                assert next(reader.frames()).index == 0, "the second attempt does not begin at 0"

    def test_closing_is_harmless_at_any_time(self) -> None:
        """Before the first frame, after some, and again."""
        with self.reading() as (reader, _):
            reader.close()
        with self.reading() as (reader, _):
            list(islice(reader.frames(), 2))
            reader.close()
            reader.close()

    def test_a_reader_that_is_stopped_ends_soon(self) -> None:
        """`stop` may be called from another thread while the reader waits for its input."""
        with self.reading() as (reader, _):

            def read() -> None:
                for frame in reader.frames():
                    if frame.index == 1:
                        reader.stop()

            thread = ThreadPoolExecutor(1)
            try:
                thread.submit(read).result(_STOP_SECONDS)
            except StreamError:
                pass
            except TimeoutError as error:
                raise AssertionError("frames() goes on although the reader was stopped") from error
            finally:
                thread.shutdown(wait=False)

    def test_an_input_that_cannot_be_opened_raises_a_stream_error(self) -> None:
        """The error is one that the runtime understands: StreamUnreadable, StreamLost, StreamStalled."""
        if self.unreadable is None:
            return
        reader = self.unreadable.build(site_for("cam", None), stream=Stream("cam", live=self.unreadable.live))
        try:
            next(reader.frames(), None)
        except StreamError:
            return
        finally:
            reader.close()
        raise AssertionError("an input that cannot be opened raised nothing")

    @contextmanager
    def reading(self) -> Iterator[tuple[SourceReader, Stream]]:
        """Open a reader, and close it."""
        with self.input() as source:
            stream = Stream("cam", live=source.live)
            reader = source.build(site_for("cam", None), stream=stream)
            try:
                yield reader, stream
            finally:
                reader.close()


def _pixels(frame: Frame) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    return [plane.copy() for plane in frame.surface.planes]
