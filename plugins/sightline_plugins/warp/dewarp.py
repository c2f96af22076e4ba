"""`dewarp`: straight views of what a fisheye camera, or a lens that bends lines, has seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from sightline.graph import CheckContext, Element, Operator, Problem, RunsOn, Site
from sightline.graph.element import Threading
from sightline.media import Batch, Frame, PixelFormat, Surface, Views
from sightline.media.views import Written
from sightline_plugins.warp.lens import Lens
from sightline_plugins.warp.remap import PlaneMap, plane_shifts, remap
from sightline_plugins.warp.views import Layout, Mount, View

if TYPE_CHECKING:
    from sightline.media.device_array import DeviceArray
    from sightline_plugins.warp.cuda import CudaRemapper, PackedMaps

_LARGEST = 16384
_GRID = 24
_MOST_PREPARED = 8
ViewName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Dewarp(Element):
    """Show what a fisheye camera sees as straight views: one, or several side by side in one image.

    Everything behind this step works on that image: models see upright people instead of bent ones, and rules,
    drawings and videos are in the views' pixels. Records name the `view` of each object. The way back to the pixels of
    the camera is known too: `source: box` or `source: polygon` writes it with each object (`source_box`,
    `source_polygon`), and in Python it is `frame.views.source_boxes(xyxy)`.

    The knobs and what they trade:

    - `lens` says how the camera bends what it sees. A fisheye camera with a round image needs its angle of view, most
      often 180 to 190 degrees; better is a calibration with OpenCV. `brown_conrady` straightens ordinary cameras.
    - `mount` says what the directions of views mean: with `ceiling`, `yaw` turns around the room and `pitch: -40` looks
      down by 40 degrees.
    - `views`: many small views show everything; few narrow ones show more of less. Pixels beyond those that the camera
      has (a view with a small `fov` and a large `size`) cost time and show nothing.

    Put it before the steps that find objects, because their boxes would not fit any more. The image differs from the
    camera's: recordings and live video of the encoded stream show all that the camera sees. Maps are computed once for
    each size of image; a frame then costs some 8 ms of CPU time for each million pixels of the views.

    ```yaml
    - dewarp:
        lens: {model: equidistant, fov: 180}
        mount: ceiling
        views:
          north: {yaw: 0, pitch: -45, fov: 90, size: [640, 480]}
          south: {yaw: 180, pitch: -45, fov: 90, size: [640, 480]}
          around: {projection: panorama, pitch: -30, size: [1296, 320]}
    ```
    """

    name: ClassVar[str] = "dewarp"
    changes_images: ClassVar[bool] = True
    moves_pixels: ClassVar[bool] = True
    threading: ClassVar[Threading] = Threading.OWN

    lens: Lens = Field(default_factory=Lens)
    """The lens of the camera: {model: equidistant, fov: 180} and so on."""
    mount: Mount = "wall"
    """How the camera is mounted: it looks ahead from a `wall`, down from a `ceiling`, or up from a `floor`."""
    views: Annotated[dict[ViewName, View], Field(min_length=1, max_length=64)]
    """The views by name, in the order in which they stand in the image."""
    columns: Annotated[int, Field(ge=1)] | None = None
    """How many views stand side by side; about as many as stand below one another when not given."""
    gap: Annotated[int, Field(ge=0, le=512, multiple_of=2)] = 16
    """Black pixels between views, so that no model sees one object in two."""
    source: Written | None = None
    """Write with each object where it is in the camera's image: as a `box`, or as a `polygon` of 16 points."""

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        width, height = self.layout().size_wh
        if max(width, height) > _LARGEST:
            raise ValueError(
                f"the image of all views would be {width}x{height} pixels, more than {_LARGEST} on a side: give fewer "
                "or smaller views, or another number of columns"
            )
        return self

    def layout(self) -> Layout:
        """Return where the views lie in the image."""
        names = tuple(self.views)
        columns = self.columns or int(np.ceil(np.sqrt(len(names))))
        return Layout(names, tuple(self.views.values()), self.mount, columns, self.gap)

    def made_views(self) -> frozenset[str]:
        """Return the names of the views."""
        return frozenset(self.views)

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Check that the lens sees something of each view."""
        del context
        for name, view in self.views.items():
            width, height = view.size_wh
            x, y = np.linspace(0, width, _GRID), np.linspace(0, height, _GRID)
            rays = view.rays(np.stack(np.meshgrid(x, y), axis=-1), mount=self.mount)
            if np.isnan(self.lens.pixels(rays, size_wh=self.lens.size or (1000, 1000))).all():
                text = (
                    f"the view {name!r} shows nothing: the lens sees no farther than "
                    f"{np.degrees(self.lens.widest):.4g} degrees from its axis. Change yaw and pitch, or the "
                    f"mount (here {self.mount})"
                )
                yield Problem(text, ("views", name))

    def build(self, site: Site) -> Operator:
        """Make the operator; OpenCV is imported with the first frame in host memory."""
        if site.gpu is None:
            return Dewarper(self)
        from sightline_plugins.warp.cuda import CudaRemapper

        return Dewarper(self, CudaRemapper(site.gpu))


@dataclass(slots=True, eq=False)
class _Prepared:
    """The maps for images of one format and size, those on the GPU where it is used, and what goes with each frame."""

    maps: tuple[PlaneMap, ...]
    views: Views
    on_gpu: tuple[PackedMaps, DeviceArray] | None = None


class Dewarper(Operator):
    """Composes the views of each frame; see `Dewarp`."""

    def __init__(self, options: Dewarp, remapper: CudaRemapper | None = None) -> None:
        self._lens, self._written = options.lens, options.source
        self._layout = options.layout()
        self._remapper = remapper
        self._prepared: dict[tuple[PixelFormat, tuple[int, int]], _Prepared] = {}
        self._on_gpu = self._on_host = 0

    def process(self, batch: Batch) -> Batch:
        """Return the batch with the views instead of the images of the cameras."""
        frames = list(batch.frames)
        there: dict[tuple[PixelFormat, tuple[int, int]], list[int]] = {}
        for row, frame in enumerate(batch.frames):
            surface = frame.surface
            if self._remapper is not None and self._remapper.takes(surface):
                there.setdefault((surface.format, surface.size_wh), []).append(row)
            else:
                self._on_host += 1
                prepared = self._prepared_for(surface)
                made = remap(surface, prepared.maps, size_wh=self._layout.size_wh)
                frames[row] = dataclasses.replace(frame, surface=made, views=prepared.views)
        for rows in there.values():
            for row, frame in zip(rows, self._on_the_gpu([batch.frames[row] for row in rows]), strict=True):
                frames[row] = frame
        return dataclasses.replace(batch, frames=tuple(frames))

    def runs_on(self) -> RunsOn:
        """Where the views are computed: in the memory in which images lie."""
        if self._remapper is None:
            return RunsOn()
        if not self._on_host:
            return RunsOn(str(self._remapper))
        reason = (
            f"{self._on_host} of {self._on_host + self._on_gpu} images lay in host memory, or were not 4:2:0 of 8 bits"
        )
        return RunsOn(str(self._remapper) if self._on_gpu else "cpu", reason)

    def _on_the_gpu(self, frames: Sequence[Frame]) -> list[Frame]:
        """Return frames of one format and size, which the remapper takes, with their views."""
        assert self._remapper is not None
        prepared = self._prepared_for(frames[0].surface)
        if prepared.on_gpu is None:
            prepared.on_gpu = self._remapper.put(prepared.maps)
        images = [frame.surface for frame in frames]
        made = self._remapper.remapped(images, prepared.on_gpu, size_wh=self._layout.size_wh)
        self._on_gpu += len(frames)
        return [
            dataclasses.replace(frame, surface=surface, views=prepared.views)
            for frame, surface in zip(frames, made, strict=True)
        ]

    def _prepared_for(self, surface: Surface) -> _Prepared:
        key = surface.format, surface.size_wh
        prepared = self._prepared.get(key)
        if prepared is None:
            if len(self._prepared) >= _MOST_PREPARED:
                del self._prepared[next(iter(self._prepared))]
            prepared = self._prepared[key] = self._prepare(surface.format, surface.size_wh)
        return prepared

    def _prepare(self, pixel_format: PixelFormat, size_wh: tuple[int, int]) -> _Prepared:
        maps = tuple(
            PlaneMap.of(self._layout.pixels(self._lens, size_wh=size_wh, shift=shift), size_wh=size_wh, shift=shift)
            for shift in plane_shifts(pixel_format)
        )
        return _Prepared(maps, self._layout.metadata(self._lens, size_wh=size_wh, written=self._written))
