"""What the compiled part decides is what the plain definitions say, to the bit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.rules.walkers import SIZE_WH, sampled, wander

from sightline.graph.tracked_objects import TrackedObjects
from sightline.media import Batch
from sightline_plugins.rules.geometry import anchor_points, inside_polygons, polygon_edges
from sightline_plugins.rules.noise import BoxNoise
from sightline_plugins.rules.polygons import Polygons
from sightline_plugins.rules.settling import LineSettling, ZoneSettling

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

POLYGONS = [
    np.array([(300.0, 200.0), (900.0, 260.0), (820.0, 620.0), (260.0, 560.0)]),
    np.array([(700.0, 150.0), (1200.0, 150.0), (1200.0, 650.0), (950.0, 400.0), (700.0, 650.0)]),
    np.array([(100.0, 100.0), (1180.0, 120.0), (640.0, 130.5)]),
    np.array([(640.0, 0.0), (1280.0, 360.0), (640.0, 720.0), (0.0, 360.0), (320.0, 300.0), (500.0, 180.0)]),
]
FRACTIONS = np.array([(0.5, 1.0), (0.5, 0.5), (0.0, 1.0), (1.0, 0.25)])
FIXED, MEASURED = np.array([0.0, 12.0, 0.0, 30.0]), np.array([6.0, 0.0, 6.0, 0.0])


def distance_to_edges(points: Floats, *, edges: Floats) -> Floats:
    """Return distances from points (N, Z, 2) to the nearest edge of polygons (Z, V, 4), each to its own -> (N, Z)."""
    start, along = edges[..., :2], edges[..., 2:] - edges[..., :2]
    offset = points[:, :, None] - start
    length = (along * along).sum(axis=-1)
    share = np.clip((offset * along).sum(axis=-1) / np.where(length == 0, 1.0, length), 0, 1)
    nearest: Floats = np.linalg.norm(offset - share[..., None] * along, axis=-1).min(axis=-1)
    return nearest


def seen(batches: list[Batch]) -> list[TrackedObjects]:
    return [TrackedObjects.of(batch, range(len(batch)), times_ns=[0] * len(batch)) for batch in batches]


def zones() -> ZoneSettling:
    settling = ZoneSettling(len(POLYGONS))
    settling.place(POLYGONS, fractions=FRACTIONS, margins=FIXED, widths=MEASURED)
    return settling


def test_who_is_inside_a_polygon_is_as_of_the_plain_definition() -> None:
    random = np.random.default_rng(4)
    feet = np.concatenate([random.uniform(-50, 1330, (2_000, 2)), np.concatenate(POLYGONS)])
    xyxy = (np.tile(feet, 2) + np.array([-20, -60, 20, 0])).astype(np.float32)
    found = Polygons(POLYGONS, fractions=FRACTIONS).inside(xyxy)
    points = anchor_points(xyxy, fractions=FRACTIONS)
    assert np.array_equal(found, inside_polygons(points, edges=polygon_edges(POLYGONS)))
    assert found.any(axis=0).all()


class PlainZones:
    """The definition, one box after another."""

    def __init__(self) -> None:
        self._noise = BoxNoise()
        self._before: dict[int, Mask] = {}
        self._unsettled: dict[int, Mask] = {}

    def judge(self, tracks: TrackedObjects) -> tuple[Mask, Mask]:
        edges, points = polygon_edges(POLYGONS), anchor_points(tracks.xyxy, fractions=FRACTIONS)
        inside, distance = inside_polygons(points, edges=edges), distance_to_edges(points, edges=edges)
        widths = self._noise.update(tracks)[:, None] * MEASURED
        for row, track_id in enumerate(tracks.track_id.tolist()):
            before, unsettled = self._before.get(track_id), self._unsettled.get(track_id, np.zeros(4, np.bool_))
            now, is_far = inside[row].copy(), (widths[row] == 0) | (distance[row] > widths[row])
            if before is None:
                before = now
            held = unsettled & ~is_far
            now = inside[row] = np.where(held, before, now)
            self._unsettled[track_id] = ~is_far & ((now != before) | unsettled)
            self._before[track_id] = now
        return inside | (distance < FIXED), inside


@pytest.mark.parametrize(("fps", "size", "noise"), [(1, 1, 3.0), (12, 7, 0.0), (30, 64, 1.0)])
def test_zones_are_those_of_the_plain_definition(fps: int, size: int, noise: float) -> None:
    walkers = wander(fps, shapes=[], interval=0, count=30, longest_hidden=2.0, seconds=25)
    plain, compiled = PlainZones(), zones()
    came = 0
    for tracks in seen(sampled(walkers, fps=fps, uneven=0.3, noise=noise, seed=fps, size=size)):
        expected, found = plain.judge(tracks), compiled.judge(tracks)
        assert all(np.array_equal(one, other) for one, other in zip(expected, found, strict=True))
        came += int(found[1].sum())
    assert came > 100


def test_points_on_corners_and_edges_are_inside_as_in_the_plain_definition() -> None:
    corners = np.concatenate(POLYGONS)
    points = np.concatenate([corners, (corners + np.roll(corners, 1, axis=0)) / 2, np.round(corners) + 1e-4])
    boxes = np.tile(points, 2).astype(np.float32)
    expected = inside_polygons(anchor_points(boxes, fractions=FRACTIONS), edges=polygon_edges(POLYGONS))

    assert np.array_equal(zones().look(boxes)[1], expected)


@pytest.mark.parametrize("count", [3, 300])
def test_results_do_not_depend_on_how_many_boxes_come_together(count: int) -> None:
    """Many pairs of boxes and shapes are judged without the GIL, by another way into the library."""
    random = np.random.default_rng(count)
    feet = random.uniform((0, 0), SIZE_WH, (count, 2))
    boxes = np.concatenate([feet - 30, feet], axis=1).astype(np.float32)
    many = ZoneSettling(4 * 20)
    many.place(POLYGONS * 20, fractions=np.tile(FRACTIONS, (20, 1)), margins=np.tile(FIXED, 20), widths=np.zeros(80))

    assert np.array_equal(many.look(boxes)[0], np.tile(zones().look(boxes)[0], (1, 20)))


def test_a_fixed_margin_widens_leaving_only_also_beside_a_measured_one() -> None:
    outside = np.array([[1205.0, 300.0, 1205.0, 300.0]], np.float32)
    stays, enters = zones().look(outside)

    assert (bool(stays[0, 1]), bool(enters[0, 1])) == (True, False)


def test_other_shapes_than_those_of_the_state_are_refused() -> None:
    tracks = seen(sampled(wander(1, shapes=[], interval=0, count=1, seconds=2), fps=1))[0]
    for settling in (ZoneSettling(3), LineSettling(3)):
        if isinstance(settling, ZoneSettling):
            settling.place(POLYGONS, fractions=FRACTIONS, margins=FIXED, widths=MEASURED)
        else:
            segments = np.stack([polygon[:2] for polygon in POLYGONS])
            settling.place(segments, fractions=FRACTIONS, margins=FIXED, widths=MEASURED)
        with pytest.raises(ValueError, match="4 shapes were placed"):
            settling.judge(tracks)


def test_a_state_of_other_widths_is_refused() -> None:
    first = zones()
    for tracks in seen(sampled(wander(1, shapes=[], interval=0, count=3, seconds=5), fps=5)):
        first.judge(tracks)
    saved = first.save()

    with pytest.raises(ValueError, match="reshape"):
        zones().restore(saved, {0: 0}, count=3)
    saved["tracks"]["inside"][0] = "0?0+"
    with pytest.raises(ValueError, match="not found"):
        zones().restore(saved, {0: 0}, count=4)


def test_the_distance_to_a_polygon_is_that_to_its_nearest_edge_inside_and_outside() -> None:
    square = polygon_edges([np.array([[0, 0], [10, 0], [10, 10], [0, 10.0]])])
    points = np.array([[[5, 5]], [[5, 1]], [[-3, 5]], [[13, 14]], [[0, 0.0]]])

    assert distance_to_edges(points, edges=square)[:, 0].tolist() == [5, 1, 3, 5, 0]
