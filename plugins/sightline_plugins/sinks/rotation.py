"""Rotation of files of lines: when the next file begins, its name, and what becomes of finished ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from sightline.errors import MissingExtra, OutputError
from sightline.graph import Clock, Outputs, Problem, Site
from sightline.graph.described import Described
from sightline.graph.fields import Size
from sightline.graph.ownership import is_foreign
from sightline.media.time import Duration
from sightline_plugins.sinks.compression import ENDINGS, PART, Compression, FileCompressor, make_encoder
from sightline_plugins.sinks.retention import FileNames, Keep, Retention, facts_of

if TYPE_CHECKING:
    from sightline_plugins.sinks.files import Degradation

DATE, TIME = "{date}", "{time}"
PLACEHOLDERS = (DATE, TIME)
EXPRESSIONS = {DATE: r"\d{4}-\d{2}-\d{2}", TIME: r"\d{8}T\d{6}Z"}
_SECOND_NS = 1_000_000_000
_CLOSING_SECONDS = 3.0
"""How long the end of a run may take to compress what is left."""


class Rotate(Described):
    """When the next file begins: at a size, at a time, or at whichever comes first."""

    size: Annotated[Size, Field(gt=0)] | None = None
    """A file is finished before it grows beyond this."""
    every: Annotated[Duration, Field(ge=_SECOND_NS)] | None = None
    """A file is finished when this long a part of the day is over, in UTC: `1h` on the hour, `1d` at midnight."""

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if not any(getattr(self, name) is not None for name in type(self).model_fields):
            raise ValueError(f"say when the next file begins: {' or '.join(type(self).model_fields)}")
        return self


class Period:
    """The time until a file is due, counted in whole periods since midnight of 1970 in UTC; begun with the file."""

    def __init__(self, every_ns: int | None, *, clock: Clock) -> None:
        self._every_ns = every_ns
        self._clock = clock
        self.begun_ns = clock.epoch_ns()

    @property
    def is_over(self) -> bool:
        """Whether the next period has come, or the clock was set back by more than one."""
        if self._every_ns is None:
            return False
        passed = self._clock.epoch_ns() // self._every_ns - self.begun_ns // self._every_ns
        return passed > 0 or passed < -1


def with_time(template: str) -> str:
    """Return the path of rotated files: with `-{time}` behind its name if it holds neither `{time}` nor `{date}`."""
    if any(word in template for word in PLACEHOLDERS):
        return template
    path = PurePath(template)
    return str(path.with_stem(f"{path.stem}-{TIME}"))


def fill_times(template: str, *, epoch_ns: int) -> str:
    """Replace `{date}` and `{time}` by a time of day, in UTC."""
    moment = datetime.fromtimestamp(epoch_ns // _SECOND_NS, UTC)
    return template.replace(DATE, f"{moment:%Y-%m-%d}").replace(TIME, f"{moment:%Y%m%dT%H%M%SZ}")


def rotation_problems(
    template: str, *, rotate: Rotate | None, compress: Compression | None, keep: Keep | None
) -> Iterator[Problem]:
    """Report options that need `rotate`, a path that cannot be rotated, and a compression that is not installed."""
    if rotate is None:
        for key, value in (("compress", compress), ("keep", keep)):
            if value is not None:
                yield Problem(f"{key} is about finished files: give rotate too", (key,))
        return
    if template == "-":
        yield Problem("standard output cannot be rotated: name a file", ("rotate",))
    if "{" in PurePath(template).suffix:
        yield Problem(f"{template!r} must end in a suffix without a placeholder, such as .jsonl", ("path",))
    if compress is not None:
        try:
            make_encoder(compress)
        except MissingExtra as error:
            yield Problem(str(error), ("compress",))


class RotatedFiles:
    """The files of a step that rotates: gives them names that no file has yet, compresses and removes finished ones.

    With `compress`, what an earlier run that was killed left uncompressed is compressed too. Used by one thread.
    """

    def __init__(
        self,
        template: str,
        *,
        rotate: Rotate,
        compress: Compression | None,
        keep: Keep | None,
        site: Site,
        degradation: Degradation,
    ) -> None:
        """`degradation` is that of compression, which loses nothing when it fails."""
        self.rotate = rotate
        self._template = with_time(template)
        self._site = site
        self._degradation = degradation
        ending = "" if compress is None else ENDINGS[compress]
        self._taken = ("", *ENDINGS.values(), *(value + PART for value in ENDINGS.values()))
        names = FileNames(self._template, EXPRESSIONS, ending=ending)
        self._retention = Retention(keep, names=names, outputs=site.outputs, clock=site.clock, warn=site.warn)
        self._compressor = None if compress is None else FileCompressor(compress, outputs=site.outputs, done=self._done)
        self._open: dict[Path, int] = {}
        self._has_looked = False

    @property
    def outputs(self) -> Outputs:
        """What files are opened with."""
        return self._site.outputs

    def period(self) -> Period:
        """Return a period that begins now."""
        return Period(self.rotate.every, clock=self._site.clock)

    def begin(self, stream: str) -> Path:
        """Return the name of the next file of a stream: one that no file has, neither of this run nor of another."""
        self._look_for_unfinished()
        self._tidy()
        template = fill_times(self._template, epoch_ns=self._site.clock.epoch_ns())
        path = wanted = self.outputs.path(template, stream=stream)
        number = 1
        while path in self._open or self._is_taken(path) or not self.outputs.reserve(path):
            number += 1
            path = wanted.with_stem(f"{wanted.stem}-{number}")
        self._open[path] = 0
        return path

    def _is_taken(self, path: Path) -> bool:
        """Whether a file has that name, or had it until it was compressed."""
        return any(_is_there(path.with_name(path.name + ending)) for ending in self._taken)

    def grown(self, path: Path, *, size_bytes: int) -> None:
        """Count the size of an open file."""
        self._open[path] = size_bytes

    def finished(self, path: Path) -> None:
        """Take over a file that was closed."""
        size_bytes = self._open.pop(path, 0)
        if not size_bytes:
            self._remove_empty(path)
        elif self._compressor is None:
            self._retention.add(path, size_bytes=size_bytes)
        else:
            self._compressor.add(path)
        self._tidy()

    def make_room(self) -> bool:
        """Remove the oldest finished file because the disk is full; False when `keep` does not allow it."""
        return self._retention.make_room()

    def work(self, *, written_bytes: int) -> None:
        """Compress some of the finished files, at least as much as was written meanwhile."""
        compressor = self._compressor
        if compressor is None or compressor.is_idle or self._degradation.is_waiting:
            return
        try:
            compressor.work(at_least_bytes=written_bytes)
        except OutputError as error:
            self._degradation.failed(error, stream="")

    def close(self) -> None:
        """Compress what is left, as far as that takes no more than a few seconds."""
        if self._compressor is not None:
            try:
                self._compressor.finish(limit_seconds=_CLOSING_SECONDS)
            except OutputError as error:
                self._degradation.failed(error, stream="")

    def _done(self, path: Path, final: Path, size_bytes: int) -> None:
        self._degradation.succeeded(stream="")
        self._retention.forget(path)
        self._retention.add(final, size_bytes=size_bytes)
        self._tidy()

    def _tidy(self) -> None:
        waiting_bytes = 0 if self._compressor is None else self._compressor.waiting_bytes
        self._retention.tidy(open_bytes=sum(self._open.values()) + waiting_bytes)

    def _remove_empty(self, path: Path) -> None:
        """Remove a file that only reserved its name, because nothing could be written."""
        facts = facts_of(path)
        if facts is not None and not facts.st_size:
            try:
                self.outputs.remove(path)
            except OutputError as error:
                self._site.warn(str(error))

    def _look_for_unfinished(self) -> None:
        """Find files that an earlier run has not compressed; those that another run writes are locked."""
        if self._has_looked or self._compressor is None:
            return
        self._has_looked = True
        for path in sorted(FileNames(self._template, EXPRESSIONS).found(self.outputs)):
            if not is_foreign(path):
                self._compressor.add(path)


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()
