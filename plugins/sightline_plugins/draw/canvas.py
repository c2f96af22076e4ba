"""What is drawn on: an image in host memory, or the list of what is drawn on one in a GPU's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from sightline.graph import RunsOn
from sightline.media import Surface
from sightline.media.shapes import Mask
from sightline_plugins.draw import cpu as cpu_draw
from sightline_plugins.draw import hiding
from sightline_plugins.draw.cpu import Color, Points, Rect, Samples, TextMask, layers_of
from sightline_plugins.draw.heat import Heat


class OnSurface(Protocol):
    """What changes an image."""

    @property
    def surface(self) -> Surface:
        """The image: in host memory as it is now, in a GPU's as it was before."""
        ...


class Canvas(OnSurface, Protocol):
    """An image that is drawn on; what the shapes mean, `planes.py` says."""

    def outline(self, rect: Rect, ink: Color, *, thickness: int) -> None:
        """Draw the frame of a rectangle."""
        ...

    def polyline(self, points: Points, ink: Color, *, thickness: int, closed: bool = False) -> None:
        """Draw a line through points."""
        ...

    def polylines(
        self, lines: Points, ink: Color, *, thickness: int, smooth: bool = True, luma_only: bool = False
    ) -> None:
        """Draw lines, perhaps on the first plane alone."""
        ...

    def tint(self, mask: Mask, ink: Color, *, opacity: float) -> None:
        """Colour the pixels of a mask, letting the image shine through."""
        ...

    def polygon(self, points: Points, ink: Color, *, opacity: float) -> None:
        """Fill a polygon, letting the image shine through."""
        ...

    def text(self, mask: TextMask, *, left: int, top: int, tables: Sequence[Samples]) -> None:
        """Put text on its background."""
        ...

    def heat(self, heat: Heat) -> None:
        """Put a heat map on the image."""
        ...


class Redactor(OnSurface, Protocol):
    """An image of which parts are hidden; what that means, `hiding.py` says."""

    def hide(
        self, rect: Rect, *, method: hiding.Method, cells: int, ink: Color, cover: hiding.Cover | None = None
    ) -> None:
        """Hide a rectangle, or the part of it that is covered."""
        ...


T = TypeVar("T")


class CanvasFactory(Protocol[T]):
    """Changes the images of a batch, wherever they lie: `put` each on it, change what that gives, `take` them off."""

    def put(self, surface: Surface) -> T:
        """A canvas for an image, or for its own copy where others hold it."""
        ...

    def take(self, canvases: Sequence[T]) -> list[Surface]:
        """The changed images."""
        ...

    def runs_on(self) -> RunsOn:
        """Where images were changed so far, and why there."""
        ...


class HostCanvas:
    """An image in host memory, changed at once: a `Canvas` and a `Veil`."""

    def __init__(self, surface: Surface) -> None:
        self.surface = surface.to_host().writable()
        self._layers = layers_of(self.surface)

    def outline(self, rect: Rect, ink: Color, *, thickness: int) -> None:
        """See `planes.outline`."""
        cpu_draw.outline(self._layers, rect, ink, thickness=thickness)

    def polyline(self, points: Points, ink: Color, *, thickness: int, closed: bool = False) -> None:
        """See `planes.polyline`."""
        cpu_draw.polyline(self._layers, points, ink, thickness=thickness, closed=closed)

    def polylines(
        self, lines: Points, ink: Color, *, thickness: int, smooth: bool = True, luma_only: bool = False
    ) -> None:
        """See `planes.polylines`."""
        layers = self._layers[:1] if luma_only else self._layers
        cpu_draw.polylines(layers, lines, ink, thickness=thickness, smooth=smooth)

    def tint(self, mask: Mask, ink: Color, *, opacity: float) -> None:
        """See `planes.tint`."""
        cpu_draw.tint(self._layers, mask, ink, opacity=opacity)

    def polygon(self, points: Points, ink: Color, *, opacity: float) -> None:
        """See `planes.polygon`."""
        cpu_draw.polygon(self._layers, points, ink, opacity=opacity)

    def text(self, mask: TextMask, *, left: int, top: int, tables: Sequence[Samples]) -> None:
        """See `planes.text`."""
        cpu_draw.text(self._layers, mask, left=left, top=top, tables=tables)

    def heat(self, heat: Heat) -> None:
        """See `Heat.draw`."""
        heat.draw(self._layers)

    def hide(
        self, rect: Rect, *, method: hiding.Method, cells: int, ink: Color, cover: hiding.Cover | None = None
    ) -> None:
        """See `hiding.hide`."""
        hiding.hide(self._layers, rect, method=method, cells=cells, ink=ink, cover=cover)


class HostCanvasFactory:
    """For images in host memory: an `Easel`."""

    def put(self, surface: Surface) -> HostCanvas:
        """See `Easel.put`."""
        return HostCanvas(surface)

    def take(self, canvases: Sequence[OnSurface]) -> list[Surface]:
        """See `Easel.take`."""
        return [canvas.surface for canvas in canvases]

    def runs_on(self) -> RunsOn:
        """See `Easel.runs_on`."""
        return RunsOn()
