"""What rules cost per frame: `python -m benchmarks.rules`.

200 objects, all of which move, and 100 zones or lines with their default options (`margin: auto`), on frames of 1080p
one at a time, as a camera brings them. Zones are polygons of 4 to 12 corners. The time is that of the whole step: state
of the tracks, noise of the boxes, geometry, stays, events, counts and overlays. Beside it stands the geometry alone as
NumPy computes it for all pairs (`inside_polygons`, `line_sides`), in the same run: what the step would cost at least
without the compiled part.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sightline.graph import Element
from sightline.media import Batch, Frame, Objects, Origin
from sightline.testing import make_frames
from sightline.testing.run import site_for
from sightline_plugins.rules.geometry import anchor_points, inside_polygons, line_sides, polygon_edges
from sightline_plugins.rules.lines import Lines
from sightline_plugins.rules.zones import Zones

SIZE_WH, FPS = (1920, 1080), 30
BOTTOM = np.array([0.5, 1.0])
PERSON = Origin("benchmark", ("person",))

Floats = npt.NDArray[np.float64]


def polygons(count: int, seed: int = 1) -> list[Floats]:
    """Return polygons (V, 2) of 4 to 12 corners around random places, 40 to 220 pixels from them, within the frame."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        corners = 4 + number % 9
        angle = (np.arange(corners) + random.uniform(-0.3, 0.3, corners)) * 2 * np.pi / corners
        centre = random.uniform(230, np.array(SIZE_WH, np.float64) - 230)
        reach = random.uniform(40, 220, (corners, 1))
        found.append(centre + reach * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    return found


def moving(objects: int, frames: int, *, seed: int = 2, noise: float = 0.5) -> Iterator[Batch]:
    """Yield frames on which all objects walk to and fro over the whole image, with boxes that tremble (pixels)."""
    random = np.random.default_rng(seed)
    still = make_frames(1, size_wh=SIZE_WH)[0]
    start, velocity = random.uniform(0, SIZE_WH, (objects, 2)), random.uniform(-200, 200, (objects, 2))
    for index in range(frames):
        way = np.mod(start + velocity * index / FPS, 2 * np.array(SIZE_WH, np.float64))
        feet = np.minimum(way, 2 * np.array(SIZE_WH, np.float64) - way)
        xyxy = np.tile(feet, 2) + np.array([-20, -100, 20, 0]) + random.normal(0, noise, (objects, 4))
        table = Objects.from_columns(
            frame=np.zeros(objects),
            xyxy=xyxy,
            confidence=np.full(objects, 0.9),
            class_id=np.zeros(objects),
            track_id=np.arange(1, objects + 1),
            source=PERSON,
        )
        yield Batch((Frame(still.stream, index, index * 1_000_000_000 // FPS, still.surface),), table)


def timed(work: Callable[[Batch], object], batches: Sequence[Batch], *, first: int = 30) -> Floats:
    """Return how many milliseconds of CPU time the work took on each frame, without the first ones: rules work in one
    thread, and other load on the machine is not theirs.
    """
    took = []
    for batch in batches:
        begun = time.thread_time_ns()
        work(batch)
        took.append((time.thread_time_ns() - begun) / 1e6)
    return np.array(took[first:])


def stepped(element: Element, batches: Sequence[Batch]) -> Floats:
    """Return the milliseconds of an element on each frame."""
    operator = element.build(site_for(element.name, None, None))
    try:
        return timed(operator.process, batches)
    finally:
        operator.close()


def main() -> None:
    """Print a line for zones and for lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=100)
    parser.add_argument("--objects", type=int, default=200)
    parser.add_argument("--frames", type=int, default=600)
    options = parser.parse_args()
    batches = list(moving(options.objects, options.frames))
    areas = polygons(options.shapes)
    zones = {f"zone {number}": {"polygon": area.tolist()} for number, area in enumerate(areas)}
    lines = {f"line {number}": {"from": area[0].tolist(), "to": area[2].tolist()} for number, area in enumerate(areas)}
    edges, segments = polygon_edges(areas), np.stack([area[[0, 2]] for area in areas])
    fractions = np.tile(BOTTOM, (options.shapes, 1))

    def in_zones(batch: Batch) -> object:
        return inside_polygons(anchor_points(batch.objects.xyxy, fractions=fractions), edges=edges)

    def at_lines(batch: Batch) -> object:
        return line_sides(anchor_points(batch.objects.xyxy, fractions=fractions), segments=segments)

    print(
        f"{options.shapes} shapes, {options.objects} objects, {os.cpu_count()} cores; milliseconds of CPU time a frame"
    )
    for name, element, plain in (
        ("zones", Zones.model_validate({"pixels": True, **zones}), in_zones),
        ("lines", Lines.model_validate({"pixels": True, **lines}), at_lines),
    ):
        own, other = stepped(element, batches), timed(plain, batches)
        (median, slow), (plain_median, plain_slow) = np.percentile(own, [50, 95]), np.percentile(other, [50, 95])
        print(
            f"{name}: p50 {median:.3f}, p95 {slow:.3f}; NumPy's geometry alone p50 {plain_median:.3f}, "
            f"p95 {plain_slow:.3f}; {plain_median / median:.1f} times as long"
        )


if __name__ == "__main__":
    main()
