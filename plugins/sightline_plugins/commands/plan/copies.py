"""Copies of a pipeline to measure: more streams like those it has, without its decoder, or without its steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from pydantic import SerializeAsAny

from sightline.errors import ConfigurationError
from sightline.graph import PipelineDescription, Site, SourceElement, SourceReader
from sightline.graph.fields import matching
from sightline.graph.tree import ProcessOptions
from sightline.media import Frame, Stream

HELD_FRAMES = 16
"""Frames of a stream that are kept, to show them again and again without decoding."""


class Held(SourceElement):
    """The first frames of another source again and again, forwards and backwards, as fast as they are wanted."""

    name: ClassVar[str] = "held"

    of: SerializeAsAny[SourceElement]
    """The source."""

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """Make a reader for one attempt."""
        return _HeldReader(self.of.build(site, stream=stream))


class _HeldReader(SourceReader):
    def __init__(self, reader: SourceReader) -> None:
        self._reader = reader

    def frames(self) -> Iterator[Frame]:
        """Yield without end, with the interval of the first two frames."""
        held = list(itertools.islice(self._reader.frames(), HELD_FRAMES))
        self._reader.close()
        interval_ns = held[1].pts_ns - held[0].pts_ns if len(held) > 1 else 40_000_000
        for index, frame in enumerate(itertools.cycle([*held, *held[-2:0:-1]])):
            if self.is_stopping:
                return
            yield replace(frame, index=index, pts_ns=held[0].pts_ns + index * interval_ns)

    def close(self) -> None:
        """Release the input."""
        self._reader.close()


def plain(description: PipelineDescription) -> PipelineDescription:
    """The pipeline without what has effects outside, in one process: deliveries, telemetry, kept counts.

    Raises ConfigurationError where a source is a camera or a pipe, which come once and at the pace of others.
    """
    for name, source in description.sources.items():
        if source.live or source.read_once is not None:
            what = "a camera" if source.live else "a pipe"
            raise ConfigurationError(
                f"sources.{name}: {what} cannot be shown faster or several times: give a recording of it, with "
                f"--source {name}=recording.mp4"
            )
    if not description.sources:
        raise ConfigurationError("sources: there is no stream to plan for")
    quiet = {"telemetry": None, "state": False, "processes": ProcessOptions(), "sources_file": None}
    kept = description.model_copy(update=quiet)
    for one, element in description.elements():  # ids are counted, and stay what they are when others are left out
        kept = kept.with_element(one, element.model_copy(update={"id": one}))
    for one, element in description.elements():
        if element.delivers:
            kept = kept.without_element(one)
    return kept


def copied(description: PipelineDescription, *, streams: int) -> PipelineDescription:
    """The pipeline with so many streams, its own and copies of them in turn. Steps for some streams work on their
    copies as well; the names of the first are its own.
    """
    own = list(description.sources)
    origins = {_name(own, number): own[number % len(own)] for number in range(streams)}
    made = description.model_copy(update={"sources": {name: description.sources[of] for name, of in origins.items()}})
    for element_id, element in description.elements():
        if element.streams is not None:
            meant = set(matching(element.streams, own))
            names = tuple(name for name, of in origins.items() if of in meant)
            made = made.with_element(element_id, element.model_copy(update={"streams": names}))
    return made


def _name(own: Sequence[str], number: int) -> str:
    """The name of one of many streams: its own, then with a number that nobody else has."""
    turn, which = divmod(number, len(own))
    name = own[which] if turn == 0 else f"{own[which]}.{turn + 1}"
    while turn and name in own:
        name += "+"
    return name


def without_steps(description: PipelineDescription) -> PipelineDescription:
    """The sources alone."""
    return description.model_copy(update={"steps": ()})


def without_decoding(description: PipelineDescription) -> PipelineDescription:
    """The steps alone, on a few frames of each stream that were decoded before; without those that take encoded images,
    which such frames do not have.
    """
    held: dict[str, SourceElement] = {name: Held(of=source) for name, source in description.sources.items()}
    kept = description.model_copy(update={"sources": held})
    for one, element in description.elements():
        if element.takes_packets:
            kept = kept.without_element(one)
    return kept


def limited(description: PipelineDescription, *, fps: float | None) -> PipelineDescription:
    """The pipeline with no more frames of each source than that a second; None changes nothing."""
    if fps is None:
        return description
    sources = {name: _limited(source, fps, of=name) for name, source in description.sources.items()}
    return description.model_copy(update={"sources": sources})


def _limited(source: SourceElement, fps: float, *, of: str) -> SourceElement:
    if "max_fps" not in type(source).model_fields:
        raise ConfigurationError(f"--fps: the source {of!r} ({source.name}) has no max_fps; leave --fps out")
    return source.model_copy(update={"max_fps": min(fps, getattr(source, "max_fps", None) or fps)})
