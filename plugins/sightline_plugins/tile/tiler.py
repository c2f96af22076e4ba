"""The operator of `tile`: puts frames into the image, and hands that to the sinks that write and publish it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from sightline.errors import SightlineError
from sightline.graph import Element, Packets, RunsOn, Sink, Site
from sightline.graph.fields import matching
from sightline.media import Altered, Batch, Frame, Stream, Surface
from sightline.media.surface import DeferredCopy
from sightline_plugins.tile.canvas import BLACK, RED, FrameResizer, TileCanvas, kind_for
from sightline_plugins.tile.grid import Rect, cells_of, grid_for, placed
from sightline_plugins.tile.tile import Tile
from sightline_plugins.tile.timeline import (
    MatchedTimeline,
    Moment,
    NewestTimeline,
    Status,
    TileState,
    Timeline,
)

if TYPE_CHECKING:
    from sightline_plugins.tile.cuda import CudaShrinker

_SECOND_NS = 1_000_000_000


class Tiler(Sink):
    """Keeps one image, in which only the tiles that have changed are made anew, and the sinks under it.

    Their stream has the name of the step. A frame of each stream is held until the next one is shown.
    """

    def __init__(self, element: Tile, *, site: Site) -> None:
        """Raises OutputError when a port of `publish` is taken."""
        self._element = element
        self._site = site
        self._stream = Stream(site.element_id or element.name, live=site.live)
        self._resizer = FrameResizer()
        self._shrinker: CudaShrinker | None = None
        if site.gpu is not None:
            from sightline_plugins.tile.cuda import CudaShrinker

            self._shrinker = CudaShrinker(site.gpu)
        self._canvas: TileCanvas | None = None
        self._layout: dict[str, Rect] = {}
        self._drawn: dict[str, TileState] = {}
        self._images = itertools.count()
        self._made = 0
        self._warned_of: frozenset[str] = frozenset()
        self._expected = matching(element.streams, site.streams)
        self._timeline = self._make_timeline()
        self._sinks: dict[str, Sink] = {}
        try:
            for key, output in (("video", element.video), ("publish", element.publish)):
                if output is not None:
                    self._sinks[key] = _built(output, element, site)
        except BaseException:
            self.close()
            raise

    def consume(self, batch: Batch) -> None:
        """Show the frames of the batch. Raises OutputError."""
        self._show(self._timeline.add(batch.frames, now_ns=self._site.clock.monotonic_ns()))

    def pause_stream(self, stream: Stream) -> None:
        """Do not wait for the stream."""
        self._timeline.pause(stream.name)

    def end_stream(self, stream: Stream) -> None:
        """Show what is left of the stream. Raises OutputError."""
        self._show(self._timeline.end(stream.name))

    def change(self, element: Tile) -> None:
        """Lay the tiles out by other options with the next image."""
        self._element = element
        self._layout = {}
        if isinstance(self._timeline, NewestTimeline):
            self._timeline.lost_after_ns = element.lost_after

    def drain(self) -> None:
        """Finish the video. Raises OutputError."""
        for sink in self._sinks.values():
            sink.end_stream(self._stream)
            sink.drain()

    def close(self) -> None:
        """Close the sinks; the first failure is raised when all are closed."""
        failure: SightlineError | None = None
        for sink in self._sinks.values():
            try:
                sink.close()
            except SightlineError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """By the name of the video: its images, and what `video` and `publish` tell of it."""
        told: dict[str, Any] = {"images": self._made}
        for key, sink in self._sinks.items():
            told[key] = sink.totals().get(self._stream.name, {})
        return {self._stream.name: told}

    def runs_on(self) -> RunsOn:
        """The CPU, where the image is put together."""
        return RunsOn() if self._shrinker is None else RunsOn("cpu", "tiles are put together in host memory")

    def _make_timeline(self) -> Timeline:
        element, expected = self._element, self._expected
        interval_ns = None if element.fps is None else round(_SECOND_NS / element.fps)
        if self._site.live:
            return NewestTimeline(expected, interval_ns=interval_ns, lost_after_ns=element.lost_after)
        return MatchedTimeline(expected, interval_ns=interval_ns, shrink=self._shrunk, warn=self._warn_of_late)

    def _show(self, moments: Iterable[Moment]) -> None:
        for moment in moments:
            surface = self._image(moment.tiles)
            if surface is None:
                continue
            captured = [state.capture_ns for state in moment.tiles.values() if state.capture_ns is not None]
            frame = Frame(
                self._stream,
                next(self._images),
                moment.pts_ns,
                surface,
                capture_ns=max(captured, default=None),
                altered=Altered.CHANGED,
            )
            self._made += 1
            for sink in self._sinks.values():
                sink.consume(Batch((frame,)))

    def _image(self, tiles: Mapping[str, TileState]) -> Surface | None:
        """The image with these tiles; None as long as no stream has a frame."""
        first = next((state.surface for state in tiles.values() if state.surface is not None), None)
        canvas = self._canvas
        if canvas is None:
            if first is None:
                return None
            canvas = self._canvas = TileCanvas(self._element.size, kind_for(first), resizer=self._resizer)
        layout = self._cells(tiles)
        if layout != self._layout:
            canvas.clear((0, 0, *self._element.size))
            self._layout, self._drawn = layout, {}
        changed = [name for name in layout if not _is_same(tiles[name], self._drawn.get(name))]
        for name, image in zip(changed, self._on_host(tiles, changed), strict=True):
            self._put(canvas, name, image, state=tiles[name], drawn=self._drawn.get(name))
            self._drawn[name] = tiles[name]
        return canvas.surface

    def _on_host(self, tiles: Mapping[str, TileState], names: Sequence[str]) -> list[DeferredCopy[Surface] | None]:
        """The frames of these tiles in host memory: those of a GPU on their way, as small as their tiles."""
        found = {name: surface for name in names if (surface := tiles[name].surface) is not None}
        shrinker = self._shrinker
        if shrinker is not None:
            sizes = {name: _size_of(self._placed(surface, self._layout[name])) for name, surface in found.items()}
            large = [
                name
                for name, surface in found.items()
                if shrinker.takes(surface) and prod(sizes[name]) < prod(surface.size_wh)
            ]
            small = shrinker.shrunk([(found[name], sizes[name]) for name in large])
            found |= zip(large, small, strict=True)
        copies = {name: surface.begin_to_host() for name, surface in found.items()}
        return [copies.get(name) for name in names]

    def _put(
        self,
        canvas: TileCanvas,
        name: str,
        image: DeferredCopy[Surface] | None,
        *,
        state: TileState,
        drawn: TileState | None,
    ) -> None:
        cell = self._layout[name]
        if image is not None and state.surface is not None:
            rect = self._placed(state.surface, cell)
            before = None if drawn is None else drawn.surface
            if rect != cell and (before is None or self._placed(before, cell) != rect or self._has_label(drawn)):
                canvas.clear(cell)
            canvas.put(image.wait(), rect)
        if self._has_label(state):
            is_shown = state.status is Status.SHOWN
            words = [name] if self._element.labels else []
            words += [] if is_shown else [state.status.value]
            canvas.label(" · ".join(words), cell, background=BLACK if is_shown else RED)

    def _has_label(self, state: TileState | None) -> bool:
        return state is not None and (self._element.labels or state.status is not Status.SHOWN)

    def _placed(self, surface: Surface, cell: Rect) -> Rect:
        return placed(surface.size_wh, cell, keep_aspect=self._element.keep_aspect)

    def _cells(self, tiles: Iterable[str]) -> dict[str, Rect]:
        """Where the tile of each stream lies, as many as there are cells."""
        element = self._element
        names = _in_order(tiles, element.streams)
        if element.select in names:
            return {element.select: (0, 0, *element.size)}
        columns, rows = grid_for(len(names), columns=element.columns, rows=element.rows)
        cells = cells_of(element.size, columns=columns, rows=rows)
        left_over = frozenset(names[len(cells) :])
        if left_over - self._warned_of:
            self._warned_of |= left_over
            self._site.warn(f"{columns} x {rows} tiles have no place for {', '.join(sorted(left_over))}")
        return dict(zip(names, cells, strict=False))

    def _shrunk(self, name: str, surface: Surface) -> Surface:
        """A frame that waits for its moment, at the size of its tile; it is not larger than before."""
        layout = self._layout or self._cells(self._expected)
        whole = (0, 0, *self._element.size)
        cell = layout.get(name) or next(iter(layout.values()), whole)
        size_wh = _size_of(self._placed(surface, cell))
        if prod(size_wh) >= prod(surface.size_wh):
            return surface
        if self._shrinker is not None and self._shrinker.takes(surface):
            return self._shrinker.shrunk([(surface, size_wh)])[0]
        return self._resizer.shrunk(surface.to_host(), size_wh)

    def _warn_of_late(self, names: Sequence[str]) -> None:
        text = "the streams are too far apart to be matched by their timestamps, and no longer waited for: "
        self._site.warn(text + ", ".join(names))


def _is_same(state: TileState, drawn: TileState | None) -> bool:
    return drawn is not None and drawn.surface is state.surface and drawn.status is state.status


def _size_of(rect: Rect) -> tuple[int, int]:
    left, top, right, bottom = rect
    return right - left, bottom - top


def _in_order(names: Iterable[str], patterns: Sequence[str] | None) -> list[str]:
    """The names in the order of the first pattern that each of them matches."""
    if patterns is None:
        return list(names)
    return list(dict.fromkeys(name for pattern in patterns for name in matching((pattern,), names)))


def _built(output: Element, element: Tile, site: Site) -> Sink:
    """The sink of an option, in whose place there are no encoded packets."""
    own = output.model_copy(update={"id": element.id, "on_error": element.on_error})
    sink = own.build(replace(site, packets=Packets()))
    assert isinstance(sink, Sink)
    return sink
