"""The operator of `privacy`: what is hidden on which frame, and the count that proves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from sightline.graph import Operator, RunsOn
from sightline.media import Batch, Frame, Objects, Stream, Surface
from sightline.media.shapes import Mask
from sightline_plugins.draw import hiding
from sightline_plugins.draw.canvas import CanvasFactory, HostCanvasFactory, Redactor
from sightline_plugins.draw.cpu import Colors, Kind, Rect
from sightline_plugins.draw.shapes import BLACK

_TRUSTED_NS = 1_000_000_000
"""How long after the last search the boxes that a tracker expects are believed."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What is hidden, how, and which steps have to have searched a frame; see `Privacy`."""

    labels: tuple[str, ...]
    detectors: frozenset[str]
    origin: str | None = None
    method: hiding.Method = "blur"
    strength: float = 0.5
    margin: float = 0.15
    shape: Literal["box", "ellipse", "mask"] = "box"
    trust_tracks: bool = False


@dataclass(slots=True)
class _Count:
    """Frames of a stream, each of them in one of the next three, and the objects that were hidden."""

    frames: int = 0
    objects_hidden: int = 0
    wholly_hidden: int = 0
    clear: int = 0
    objects: int = 0


class Concealment(Operator):
    """Hides objects on writable copies, in the memory where `easel` does, and whole frames that were not searched."""

    def __init__(
        self, orders: Orders, *, warn: Callable[..., None], canvases: CanvasFactory[Redactor] | None = None
    ) -> None:
        self._orders = orders
        self._canvases: CanvasFactory[Redactor] = HostCanvasFactory() if canvases is None else canvases
        self._warn = warn
        self._cells = hiding.cells_for(orders.strength)
        self._counts: dict[str, _Count] = {}
        self._searched_ns: dict[Stream, int] = {}
        self._inks: dict[Kind, Colors] = {}

    def process(self, batch: Batch) -> Batch:
        """The batch with hidden objects; frames with none, that were searched, keep their surface."""
        targets = batch.objects.select(self._are_targets(batch.objects))
        veils = [
            self._concealed(frame, targets.of_frame(row), is_searched=self._is_searched(batch, row))
            for row, frame in enumerate(batch.frames)
        ]
        hidden = iter(self._canvases.take([redactor for redactor in veils if redactor is not None]))
        pairs = zip(batch.frames, veils, strict=True)
        return batch.with_surfaces([frame.surface if redactor is None else next(hidden) for frame, redactor in pairs])

    def runs_on(self) -> RunsOn:
        """Where the images lie of which parts are hidden."""
        return self._canvases.runs_on()

    def end_stream(self, stream: Stream) -> None:
        """Forget when the stream was searched."""
        self._searched_ns.pop(stream, None)

    def totals(self) -> Mapping[str, Mapping[str, int]]:
        """By stream: `frames`, of which `objects_hidden`, `wholly_hidden` and `clear` are the parts; `objects`."""
        return {stream: asdict(count) for stream, count in self._counts.items()}

    def _are_targets(self, objects: Objects) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        chosen = objects.has_label(self._orders.labels)
        if self._orders.origin is not None:
            named = [origin.element == self._orders.origin for origin in objects.origins]
            chosen &= np.array(named, np.bool_)[objects.origin]
        return chosen

    def _is_searched(self, batch: Batch, row: int) -> bool:
        """Whether everything on a frame that had to be found was looked for, or can be told from the frames before."""
        frame = batch.frames[row]
        if batch.columns.searched_by and self._orders.detectors <= batch.columns.searched_by[row]:
            self._searched_ns[frame.stream] = frame.pts_ns
            return True
        last_ns = self._searched_ns.get(frame.stream)
        is_foreseen = bool(batch.columns.detected) and not batch.columns.detected[row]
        if not (self._orders.trust_tracks and is_foreseen) or last_ns is None:
            return False
        return 0 <= frame.pts_ns - last_ns <= _TRUSTED_NS

    def _concealed(self, frame: Frame, targets: Objects, *, is_searched: bool) -> Redactor | None:
        """A veil over what must not be seen of a frame; None where all of it may."""
        count = self._counts.setdefault(frame.stream.name, _Count())
        count.frames += 1
        if not is_searched or not np.isfinite(targets.xyxy).all():
            if not count.wholly_hidden:
                self._tell(frame)
            count.wholly_hidden += 1
            return self._wholly(frame.surface)
        if not len(targets):
            count.clear += 1
            return None
        count.objects_hidden += 1
        count.objects += len(targets)
        return self._partly(frame.surface, targets)

    def _tell(self, frame: Frame) -> None:
        named = " and ".join(sorted(self._orders.detectors))
        text = f"frame {frame.index} was not wholly searched by {named}: the whole image is hidden, on all such frames"
        self._warn(text, stream=frame.stream.name)

    def _wholly(self, surface: Surface) -> Redactor:
        width, height = surface.size_wh
        redactor = self._canvases.put(surface)
        self._hide(redactor, (0, 0, width + width % 2, height + height % 2))
        return redactor

    def _partly(self, surface: Surface, targets: Objects) -> Redactor:
        redactor = self._canvases.put(surface)
        masks = targets.extra.get("mask", np.full(len(targets), None)).tolist()
        for xyxy, mask in zip(targets.xyxy.tolist(), masks, strict=True):
            rect, cover = self._place(xyxy, mask, surface.size_wh)
            self._hide(redactor, rect, cover)
        return redactor

    def _place(
        self, xyxy: Sequence[float], mask: Mask | None, size_wh: tuple[int, int]
    ) -> tuple[Rect, hiding.Cover | None]:
        """Where an object is hidden, and which pixels of that, None for all."""
        margin = self._orders.margin
        if self._orders.shape == "mask" and mask is not None and mask.bits.size:
            rect = hiding.grown(hiding.bounds_of(mask), margin=margin)
            around = max(2, round(min(mask.bits.shape) * margin))
            return rect, hiding.mask_cover(mask, margin=around, seen=hiding.inside(rect, size_wh=size_wh))
        rect = hiding.grown(xyxy, margin=margin)
        if self._orders.shape == "ellipse":
            return rect, hiding.ellipse_cover(rect, seen=hiding.inside(rect, size_wh=size_wh))
        return rect, None

    def _hide(self, redactor: Redactor, rect: Rect, cover: hiding.Cover | None = None) -> None:
        kind = Kind.of(redactor.surface)
        inks = self._inks.get(kind)
        if inks is None:
            inks = self._inks[kind] = Colors(kind)
        ink = inks.ink(BLACK)
        redactor.hide(rect, method=self._orders.method, cells=self._cells, ink=ink, cover=cover)
