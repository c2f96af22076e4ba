"""The operator of `draw`: what is drawn, in which order, in which colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.graph import Operator, RunsOn
from sightline.media import Arrows, Batch, Frame, Graphic, HeatLayer, Objects, Overlay, Stream, Surface
from sightline.media.time import format_time
from sightline_plugins.draw.canvas import Canvas, CanvasFactory, HostCanvasFactory
from sightline_plugins.draw.cpu import Colors, Kind, Rgb, Typesetter, snap
from sightline_plugins.draw.draw import DrawOptions
from sightline_plugins.draw.heat import Heat
from sightline_plugins.draw.shapes import (
    BLACK,
    LINE,
    ZONE,
    DrawContext,
    Point,
    Style,
    Trails,
    captions_of,
    centred,
    color_of,
    draw_arrows,
    draw_boxes,
    draw_keypoints,
    draw_masks,
    write_captions,
)

_ZONE_OPACITY = 0.22
_TRAIL_SPACING = 1 / 60


class Drawing(Operator):
    """Draws on writable copies, in the memory where `easel` does; keeps the trails of each stream."""

    def __init__(self, options: DrawOptions, *, canvases: CanvasFactory[Canvas] | None = None) -> None:
        self._options = options
        self._canvases: CanvasFactory[Canvas] = HostCanvasFactory() if canvases is None else canvases
        self._trails: dict[Stream, Trails] = {}
        self._inks: dict[Kind, Colors] = {}
        self._heat: dict[Stream, tuple[tuple[object, ...], list[Heat]]] = {}
        self._typesetter = Typesetter()

    def process(self, batch: Batch) -> Batch:
        """The batch with drawn images; frames with nothing to draw keep their surface."""
        overlays = batch.columns.overlays or ((),) * len(batch)
        shown = batch.columns.graphics if self._options.graphics else ()
        graphics = shown or ((),) * len(batch)
        canvases = [
            self._draw(frame, batch.objects.of_frame(row), overlays[row] if self._options.rules else (), graphics[row])
            for row, frame in enumerate(batch.frames)
        ]
        drawn = iter(self._canvases.take([canvas for canvas in canvases if canvas is not None]))
        pairs = zip(batch.frames, canvases, strict=True)
        return batch.with_surfaces([frame.surface if canvas is None else next(drawn) for frame, canvas in pairs])

    def runs_on(self) -> RunsOn:
        """Where the images lie that are drawn on."""
        return self._canvases.runs_on()

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream's trails and heat maps."""
        self._trails.pop(stream, None)
        self._heat.pop(stream, None)

    def change(self, element: DrawOptions) -> None:
        """Draw by other options; trails of another length begin anew."""
        if element.trail != self._options.trail:
            self._trails.clear()
        self._options = element

    def _draw(
        self, frame: Frame, objects: Objects, overlays: Sequence[Overlay], graphics: Sequence[Graphic]
    ) -> Canvas | None:
        """A canvas with the frame's image, drawn; None where there is nothing to draw."""
        ways = self._follow(frame, objects)
        if not (len(objects) or overlays or graphics or self._options.clock):
            return None
        context = self._sheet(frame.surface)
        rects = snap(objects.xyxy)
        colors = self._colors(objects)
        for heat in self._heats(frame, [one for one in graphics if isinstance(one, HeatLayer)]):
            context.canvas.heat(heat)
        if self._options.masks:
            draw_masks(context, objects, colors)
        for overlay in overlays:
            if not _is_whole_frame(overlay, frame.size_wh):
                _draw_shape(context, overlay)
        for graphic in graphics:
            if isinstance(graphic, Arrows):
                draw_arrows(context, graphic)
        color_of_track = dict(zip(objects.track_id.tolist(), colors, strict=True))
        for track, points in ways:
            ink = context.inks.ink(color_of_track[track])
            context.canvas.polyline(np.array(points), ink, thickness=context.style.thickness)
        if self._options.boxes:
            draw_boxes(context, objects, rects, colors)
        if self._options.keypoints:
            draw_keypoints(context, objects, colors, confidence=self._options.keypoint_confidence)
        write_captions(context, captions_of(objects, self._options), objects, rects, colors, self._typesetter)
        self._write_counts(context, overlays)
        self._write_clock(context, frame)
        return context.canvas

    def _sheet(self, surface: Surface) -> DrawContext:
        kind = Kind.of(surface)
        inks = self._inks.get(kind)
        if inks is None:
            inks = self._inks[kind] = Colors(kind)
        style = Style.for_height(
            surface.size_wh[1], thickness=self._options.thickness, text_size=self._options.text_size
        )
        return DrawContext(self._canvases.put(surface), surface.size_wh, inks, style)

    def _follow(self, frame: Frame, objects: Objects) -> list[tuple[int, list[Point]]]:
        if not self._options.trail:
            return []
        trails = self._trails.get(frame.stream)
        if trails is None:
            trails = self._trails[frame.stream] = Trails(self._options.trail)
        positions = [
            (track, ((left + right) / 2, bottom))
            for track, (left, _, right, bottom) in zip(objects.track_id.tolist(), objects.xyxy.tolist(), strict=True)
        ]
        return trails.update(frame.pts_ns, positions, spacing=max(2.0, frame.size_wh[1] * _TRAIL_SPACING))

    def _heats(self, frame: Frame, layers: Sequence[HeatLayer]) -> Sequence[Heat]:
        """The heat maps as they are drawn on a frame: those of the frame before until their levels change."""
        if not layers:
            return ()
        key = (frame.size_wh, Kind.of(frame.surface), *((id(one.levels), one.opacity) for one in layers))
        known = self._heat.get(frame.stream)
        if known is None or known[0] != key:
            kind = Kind.of(frame.surface)
            known = self._heat[frame.stream] = (key, [Heat(layer, kind=kind) for layer in layers])
        return known[1]

    def _colors(self, objects: Objects) -> list[Rgb]:
        numbers = objects.class_id + 5 * objects.origin.astype(np.int64)
        if self._options.color == "track":
            numbers = np.where(objects.track_id >= 0, objects.track_id, numbers)
        return [color_of(number) for number in numbers.tolist()]

    def _write_counts(self, context: DrawContext, overlays: Sequence[Overlay]) -> None:
        """Write the counts of each rule in the middle of its shape; those of the whole frame below one another at the
        left, under the clock.
        """
        line = int(self._options.clock)
        for overlay in overlays:
            counts = (f"{name} {number}" for name, number in overlay.counts)
            mask = self._typesetter.mask("  ".join((overlay.name, *counts)), size=context.style.text_size)
            if _is_whole_frame(overlay, context.size_wh):
                place = (0, line * mask.height)
                line += 1
            else:
                middle = np.mean(overlay.points, axis=0)
                place = centred((middle[0], middle[1]), text_wh=(mask.width, mask.height), size_wh=context.size_wh)
            context.text(mask, at=place, background=_overlay_color(overlay))

    def _write_clock(self, context: DrawContext, frame: Frame) -> None:
        if self._options.clock:
            mask = self._typesetter.mask(_clock(frame), size=context.style.text_size)
            context.text(mask, at=(0, 0), background=BLACK)


def _overlay_color(overlay: Overlay) -> Rgb:
    return LINE if overlay.kind == "line" else ZONE


def _is_whole_frame(overlay: Overlay, size_wh: tuple[int, int]) -> bool:
    """Whether a rule looks at the whole frame: there is no shape to be shown then."""
    width, height = size_wh
    return overlay.kind == "zone" and {*overlay.points} == {(0, 0), (width, 0), (width, height), (0, height)}


def _draw_shape(context: DrawContext, overlay: Overlay) -> None:
    points = np.array(overlay.points, np.float64).reshape(-1, 2)
    ink = context.inks.ink(_overlay_color(overlay))
    closed = overlay.kind == "zone"
    if closed:
        context.canvas.polygon(points, ink, opacity=_ZONE_OPACITY)
    else:
        casing = context.inks.ink(BLACK)
        context.canvas.polyline(points, casing, thickness=2 * context.style.thickness)
    context.canvas.polyline(points, ink, thickness=context.style.thickness, closed=closed)


def _clock(frame: Frame) -> str:
    if frame.capture_ns is not None:
        return format_time(frame.capture_ns).replace("T", " ").removesuffix("Z")
    milliseconds = abs(frame.pts_ns) // 1_000_000
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, thousandths = divmod(rest, 1_000)
    sign = "-" if frame.pts_ns < 0 else ""
    return f"{sign}{hours}:{minutes:02}:{seconds:02}.{thousandths:03}"
