"""What rules cost per frame: `python -m benchmarks.rules`.

200 objects, all of which move, and 100 named shapes of every rule with its default options (`margin: auto`), on frames
of 1080p one at a time, as a camera brings them. Areas are polygons of 4 to 12 corners. The time is that of the whole
step: state of the tracks, noise of the boxes, geometry, stays, events, counts and overlays. Beside it stands the
geometry alone as NumPy computes it for all pairs (`inside_polygons`, `line_sides`), in the same run: what the step
would cost at least without the compiled part. `combine` gets the events of `zones`, and one map serves `heat_map`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.graph import Element
from sightline.media import Batch, Frame, Objects, Origin
from sightline.testing import make_frames
from sightline.testing.run import site_for
from sightline_plugins.rules.absence import Absence
from sightline_plugins.rules.combine import Combine
from sightline_plugins.rules.crowd import Crowd
from sightline_plugins.rules.direction import Direction
from sightline_plugins.rules.flows import Flows
from sightline_plugins.rules.geometry import anchor_points, inside_polygons, line_sides, polygon_edges
from sightline_plugins.rules.heat_map import HeatMaps
from sightline_plugins.rules.left_objects import LeftObjects
from sightline_plugins.rules.lines import Lines
from sightline_plugins.rules.loitering import Loitering
from sightline_plugins.rules.parking import Parking
from sightline_plugins.rules.queue import Queue
from sightline_plugins.rules.speed import Speed
from sightline_plugins.rules.stopped import Stopped
from sightline_plugins.rules.zones import Zones

SIZE_WH, FPS = (1920, 1080), 30
BOTTOM = np.array([0.5, 1.0])
PERSON = Origin("benchmark", ("person",))
_GROUND = {"frame": [[500, 300], [1400, 300], [1900, 1000], [20, 1000]], "width": 20, "length": 60}
AREAS: Sequence[tuple[str, type[Element], Mapping[str, Any]]] = (
    ("zones", Zones, {}),
    ("crowd", Crowd, {"at_least": 3}),
    ("loitering", Loitering, {"after": "5s"}),
    ("loitering, within", Loitering, {"after": "5s", "within": 0.05}),
    ("absence", Absence, {"after": "5s"}),
    ("queue", Queue, {"exit": [[900, 0], [900, 1080]], "length_limit": 3, "wait_limit": "5s"}),
    ("queue, speed", Queue, {"exit": [[900, 0], [900, 1080]], "speed": 0.1}),
    ("parking", Parking, {"after": "1s"}),
    ("flows", Flows, {}),
    ("direction", Direction, {"allowed": 90}),
    ("stopped", Stopped, {"after": "1s"}),
    ("speed", Speed, {"ground": _GROUND, "limit": 30}),
    ("speed, near", Speed, {"ground": _GROUND, "limit": 30, "near": {"distance": 1}}),
    ("left_objects", LeftObjects, {"after": "1s", "owners": ["guard"]}),
)
"""What is measured, the element, and the options of each area beside its polygon."""

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


def steps(areas: Sequence[Floats]) -> Iterator[tuple[str, Element]]:
    """Yield the rules that are measured, with these areas (V, 2)."""
    for label, element, options in AREAS:
        shapes = {f"area {number}": {"polygon": area.tolist(), **options} for number, area in enumerate(areas)}
        yield label, element.model_validate({"pixels": True, **shapes})
    ends = [area[[0, 2]].tolist() for area in areas]
    lines = {f"line {number}": {"from": start, "to": to} for number, (start, to) in enumerate(ends)}
    yield "lines", Lines.model_validate({"pixels": True, **lines})
    yield "heat_map", HeatMaps.model_validate({"map": {}})
    yield "heat_map, paths", HeatMaps.model_validate({"map": {"measure": "paths"}})


def combined(areas: Sequence[Floats], batches: Sequence[Batch]) -> tuple[Element, list[Batch]]:
    """Return a rule for every two areas, and the frames with the events of `zones` in those."""
    zones = {f"area{number}": {"polygon": area.tolist()} for number, area in enumerate(areas)}
    operator = Zones.model_validate({"pixels": True, "id": "zones", **zones}).build(site_for("zones", None, None))
    found = [operator.process(batch) for batch in batches]
    operator.close()
    rules = {
        f"rule{number}": f"zones.area{number}.enter and zones.area{(number + 1) % len(areas)}.enter"
        for number in range(len(areas))
    }
    return Combine.model_validate(rules), found


def main() -> None:
    """Print a table with a row for each rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=100)
    parser.add_argument("--objects", type=int, default=200)
    parser.add_argument("--frames", type=int, default=600)
    parser.add_argument("--only", nargs="*", help="measure these rules")
    options = parser.parse_args()
    batches = list(moving(options.objects, options.frames))
    areas = polygons(options.shapes)
    edges, segments = polygon_edges(areas), np.stack([area[[0, 2]] for area in areas])
    fractions = np.tile(BOTTOM, (options.shapes, 1))

    def in_areas(batch: Batch) -> object:
        return inside_polygons(anchor_points(batch.objects.xyxy, fractions=fractions), edges=edges)

    def at_lines(batch: Batch) -> object:
        return line_sides(anchor_points(batch.objects.xyxy, fractions=fractions), segments=segments)

    print(
        f"{options.shapes} shapes, {options.objects} objects, {os.cpu_count()} cores; milliseconds of CPU time a frame"
    )
    print(f"{'':<20}{'p50':>8}{'p95':>8}   NumPy's geometry alone takes")
    alone = {name: timed(plain, batches) for name, plain in (("area", in_areas), ("line", at_lines))}
    for name, times in alone.items():
        print(_row(f"(NumPy, each {name})", times))
    for name, element in steps(areas):
        if not options.only or name in options.only:
            own = stepped(element, batches)
            share = np.median(alone["line" if name == "lines" else "area"]) / np.median(own)
            print(_row(name, own), "" if name.startswith("heat_map") else f"  {share:.1f} times as long")
    if not options.only or "combine" in options.only:
        print(_row("combine", stepped(*combined(areas, batches))))


def _row(name: str, times: Floats) -> str:
    median, slow = np.percentile(times, [50, 95])
    return f"{name:<20}{median:>8.3f}{slow:>8.3f}"


if __name__ == "__main__":
    main()
