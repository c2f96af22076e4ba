"""`snapshots`: save images of events and tracks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from sightline.graph import CheckContext, Element, OutputPath, Problem, Site, Threading
from sightline.graph.fields import Fraction
from sightline.media.time import Duration
from sightline_plugins.sinks.files import STREAM, path_problems
from sightline_plugins.sinks.retention import Keep

if TYPE_CHECKING:
    from sightline_plugins.sinks.snapshot_writer import SnapshotWriter

SUFFIXES = (".jpg", ".jpeg", ".png")
_FRAME, _TRACK = "{frame}", "{track}"


class Snapshots(Element):
    """Save images as JPEG or PNG: when a rule reports an event, when a track is first seen, or at intervals.

    The image is the frame at this step (drawn after `draw`, original before it), or with `crop` the object alone.
    Images are encoded in a separate thread. After `limit` images of a stream no more are saved, with one warning, so
    that a rule that never stops cannot fill a disk; with `keep` the oldest are removed instead.

    A track is saved once, and again when `again` has passed or when it is seen `better`: larger and with more
    confidence. If the path contains only the track id, the better image replaces the other. When the disk is full, the
    step reports `sink_degraded` and continues when there is room.

    In the path, `{stream}` is the stream's name, `{frame}` the frame index in six digits and `{track}` the track id.

    ```yaml
    - snapshots: {path: "out/{stream}-{frame}.jpg", on: event, rules: [gate_in], limit: 100}
    - snapshots: {path: "faces/{track}.jpg", on: track, crop: true, better: 1.5, keep: {count: 1000, age: 7d}}
    ```
    """

    name: ClassVar[str] = "snapshots"
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"
    threading: ClassVar[Threading] = Threading.OWN

    path: OutputPath
    """File of each image, `.jpg` or `.png`, with `{frame}`, `{track}` or both."""
    on: Literal["event", "track"] | None = None
    """Save on each `event`, or once for each `track`; on events when neither this nor `every` is given."""
    every: Annotated[Duration, Field(gt=0)] | None = None
    """Save the first frame, and one each time this long has passed."""
    rules: tuple[str, ...] | None = None
    """Rules whose events count; all when not given."""
    again: Annotated[Duration, Field(gt=0)] | None = None
    """A track is saved again when this long has passed since it was; events of the same track within it are not."""
    better: Annotated[float, Field(gt=1, allow_inf_nan=False)] | None = None
    """A track is saved again when area times confidence is so many times what it was on its last image."""
    crop: bool = False
    """Save the object that the event or the track is about instead of the whole frame."""
    margin: Fraction = 0.1
    """How much around the object is saved, as a share of its width and height."""
    quality: Annotated[int, Field(ge=1, le=100)] = 90
    """Quality of JPEG."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of images per stream in one run; 1000 if neither this nor `keep` is given."""
    keep: Keep | None = None
    """What is kept of the images; all when not given."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.on is not None and self.every is not None:
            raise ValueError("give on or every, not both")
        if self.crop and self.every is not None:
            raise ValueError("crop needs an object: save on event or track, not every so often")
        if self.rules is not None and (self.on == "track" or self.every is not None):
            raise ValueError("rules have a meaning with on: event only")
        if self.every is not None and (self.again is not None or self.better is not None):
            raise ValueError("again and better are about tracks: save on event or track, not every so often")
        return self

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the suffix, that each image has its own name, and that it can be written."""
        if PurePath(self.path).suffix.lower() not in SUFFIXES:
            yield Problem(f"{self.path!r} must end in {', '.join(SUFFIXES)}", ("path",))
        if _TRACK not in self.path and (self.crop or _FRAME not in self.path):
            wanted = "{track}" if self.crop else "{frame} or {track}"
            yield Problem(f"images would overwrite each other: put {wanted} into the path", ("path",))
        if _TRACK in self.path and not self.crop and self.on != "track":
            yield Problem("{track} has a meaning with crop or on: track only", ("path",))
        known = (STREAM, _FRAME, _TRACK)
        yield from path_problems(self, self.path, context=context, shareable=False, known=known)

    def build(self, site: Site) -> SnapshotWriter:
        """Make the writer."""
        from sightline_plugins.sinks.snapshot_writer import SnapshotWriter

        return SnapshotWriter(self, site)
