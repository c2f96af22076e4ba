"""The operator of `heat_map`: feeds the maps, and writes them to files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np

from sightline.errors import OutputError
from sightline.graph import Site
from sightline.graph.outputs import safe_name
from sightline.graph.rule import RuleOperator
from sightline.media import Batch, Frame, HeatLayer, PixelFormat, Stream, Surface
from sightline.media.convert import rgb_from_surface
from sightline.media.frame import NANOSECONDS
from sightline.media.heat import levels_of
from sightline_plugins.draw.cpu import Kind, layers_of
from sightline_plugins.draw.heat import Heat
from sightline_plugins.opencv import cv2
from sightline_plugins.rules.geometry import Floats
from sightline_plugins.rules.heat_map import RULE, HeatMaps, StreamHeat
from sightline_plugins.sinks.files import Degradation

_SEEN = 0.7
"""The opacity of maps in files: nobody looks at the image alone."""
_KEPT_NS = NANOSECONDS
"""The image below a map is so much older than the map at most."""


@dataclass(slots=True, eq=False)
class _Files:
    """When the files of a stream were written, and the latest image for them with its time."""

    written_ns: int
    image_ns: int = 0
    image: Surface | None = None


class HeatMapOperator(RuleOperator):
    """Feeds the maps; writes their files at the interval, and when a stream ends.

    A file is replaced as a whole. Where that fails, a message reports it, the run goes on, and it is tried again.
    """

    def __init__(self, rule: HeatMaps, *, site: Site) -> None:
        super().__init__(rule, step=site.element_id, clock=site.clock)
        self._site = site
        self._heat_maps = rule
        self._files: dict[Stream, _Files] = {}
        self._degradation = Degradation(site)

    def process(self, batch: Batch) -> Batch:
        """Add what the batch holds, and write the files that are due."""
        result = super().process(batch)
        if self._heat_maps.path is not None or self._heat_maps.image is not None:
            for frame in batch.frames:
                self._see(frame)
        return result

    def end_stream(self, stream: Stream) -> None:
        """Write the maps of the stream for the last time; what was added up stays."""
        files = self._files.pop(stream, None)
        if files is not None:
            self._write(stream, files.image, is_last=True)
        super().end_stream(stream)

    def _see(self, frame: Frame) -> None:
        now_ns = frame.pts_ns
        files = self._files.setdefault(frame.stream, _Files(now_ns))
        is_image_due = files.image is None or not 0 <= now_ns - files.image_ns < _KEPT_NS
        if self._heat_maps.image is not None and is_image_due:
            files.image, files.image_ns = _copied(frame.surface), now_ns
        if not 0 <= now_ns - files.written_ns < self._heat_maps.interval:
            files.written_ns = now_ns
            self._write(frame.stream, files.image)

    def _write(self, stream: Stream, image: Surface | None, *, is_last: bool = False) -> None:
        """Write all maps of a stream, unless writing failed a moment ago and it is tried again."""
        state = self._latest.get(stream.name)
        if (self._degradation.is_waiting and not is_last) or not isinstance(state, StreamHeat):
            return
        try:
            for name in self._heat_maps.rule_names():
                for template, body in self._bodies(state.values(name), image):
                    self._replace(
                        self._site.outputs.path(template.replace(RULE, safe_name(name)), stream=stream.name), body
                    )
        except OutputError as error:
            self._degradation.failed(error, stream=stream.name)
        else:
            self._degradation.succeeded(stream=stream.name)

    def _bodies(self, values: Floats, image: Surface | None) -> Iterator[tuple[str, bytes]]:
        """Yield the path of each file of a map, with its content."""
        if (path := self._heat_maps.path) is not None:
            yield path, npy_of(values) if path.lower().endswith(".npy") else csv_of(values)
        if (path := self._heat_maps.image) is not None and image is not None:
            yield path, png_of(values, image)

    def _replace(self, path: Path, body: bytes) -> None:
        outputs = self._site.outputs
        outputs.check_replaceable(path)
        part = path.with_name(f".{path.name}.part")
        file = outputs.open_lines(part)
        file.write(body)
        file.close()
        outputs.rename(part, to=path)


def npy_of(values: Floats) -> bytes:
    """Return a map (rows, columns) as `numpy.load` reads it, float32."""
    file = BytesIO()
    np.save(file, values.astype(np.float32), allow_pickle=False)
    return file.getvalue()


def csv_of(values: Floats) -> bytes:
    """Return a map (rows, columns) as lines of numbers, to a thousandth."""
    file = StringIO()
    np.savetxt(file, values, fmt="%.3f", delimiter=",")
    return file.getvalue().encode("ascii")


def png_of(values: Floats, image: Surface) -> bytes:
    """Return a map (rows, columns) over an image, as a PNG file."""
    rgb = rgb_from_surface(image)
    surface = Surface(PixelFormat.RGB24, image.size_wh, (rgb,), exclusive=True)
    Heat(HeatLayer(levels_of(values), _SEEN), kind=Kind.of(surface)).draw(layers_of(surface))
    _, body = cv2.imencode(".png", np.ascontiguousarray(rgb[..., ::-1]))
    return bytes(body)


def _copied(surface: Surface) -> Surface:
    """Return a copy in host memory, which nobody else draws on."""
    on_host = surface.to_host()
    return replace(on_host, pixels=tuple(plane.copy() for plane in on_host.planes))
