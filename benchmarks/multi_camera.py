"""Multi-camera tracking on made scenes: `python -m benchmarks.multi_camera [--people N] [--seconds N]`.

People walk over a floor that two or three cameras see, with views that overlap or with a gap between them. Each camera
has tracks with noisy boxes, missing detections and ids that change; each person has an appearance vector with noise.
The table shows how well `multi_camera` finds who is who, by floor plan, by appearance, and by both.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Frame, Objects, Origin
from sightline.testing import make_frames
from sightline.testing.run import site_for
from sightline_plugins.track.association import assign
from sightline_plugins.track.multi_camera.element import MultiCamera

Floats = npt.NDArray[np.float64]

SIZE_WH = (1280, 720)
_DETECTOR = Origin("detect-1", ("person",))
_HEIGHT_M, _WIDTH_M = 1.72, 0.5
_FEET_PIXELS = 3.0
_MISSING = 0.05
_SWITCHES_PER_SECOND = 0.02
EASY, HARD = (0.5, 0.3), (0.8, 0.9)
"""Length of the noise of an appearance vector, whose own length is 1: of each vector, and of all of one track. The mean
vectors of two tracks of one person have a similarity of 0.9 and 0.55, those of two people of 0.45 and 0.27."""
DIMENSIONS = 64


@dataclass(frozen=True)
class PinholeCamera:
    """A camera at a place (metres, 3) that looks at a point of the floor, with a focal length in pixels."""

    place: tuple[float, float, float]
    target: tuple[float, float]
    focal: float = 800.0

    def project(self, points: Floats) -> Floats:
        """Return pixels and depth (N, 3) of points (N, 3) in metres."""
        forward = np.array([*self.target, 0.0]) - self.place
        forward /= np.linalg.norm(forward)
        right = np.cross(forward, [0, 0, 1])
        right /= np.linalg.norm(right)
        rotation = np.stack([right, np.cross(forward, right), forward])
        seen = (points - np.array(self.place)) @ rotation.T
        pixels = self.focal * seen[:, :2] / np.where(seen[:, 2:] > 0.5, seen[:, 2:], np.nan)
        found: Floats = np.concatenate([pixels + np.array(SIZE_WH) / 2, seen[:, 2:]], axis=1)
        return found

    def boxes(self, floor: Floats) -> Floats:
        """Return boxes (N, 4) of people at floor points (N, 2); NaN where their feet are not in the image."""
        feet = self.project(np.pad(floor, ((0, 0), (0, 1))))
        head = self.project(np.pad(floor, ((0, 0), (0, 1)), constant_values=_HEIGHT_M))
        half = self.focal * _WIDTH_M / 2 / feet[:, 2]
        boxes = np.stack([feet[:, 0] - half, head[:, 1], feet[:, 0] + half, feet[:, 1]], axis=1)
        with np.errstate(invalid="ignore"):
            inside = (feet[:, 0] > 20) & (feet[:, 0] < SIZE_WH[0] - 20) & (feet[:, 1] < SIZE_WH[1] - 10)
            inside &= (boxes[:, 3] - boxes[:, 1] > 45) & (boxes[:, 3] > 0)
        boxes[~inside] = np.nan
        return boxes

    def floor_points(self, floor: Floats, *, noise_m: float = 0.03, seed: int = 0) -> list[list[float]]:
        """Return pairs [x, y, X, Y] in fractions for those of these floor points that the camera sees."""
        boxes = self.boxes(floor)
        seen = ~np.isnan(boxes[:, 0])
        feet = np.stack([(boxes[:, 0] + boxes[:, 2]) / 2, boxes[:, 3]], axis=1) / SIZE_WH
        moved = floor + np.random.default_rng(seed).normal(0, noise_m, floor.shape)
        table = np.concatenate([feet, moved], axis=1)[seen]
        return [row.round(5).tolist() for row in table]


@dataclass(frozen=True)
class Site:
    """Cameras over a floor of that size in metres."""

    cameras: dict[str, PinholeCamera]
    size_m: tuple[float, float]

    def plan(self) -> dict[str, list[list[float]]]:
        """Return the floor plan of all cameras, from points on a grid."""
        x, y = np.meshgrid(np.linspace(1, self.size_m[0] - 1, 8), np.linspace(1, self.size_m[1] - 1, 8))
        grid = np.stack([x.ravel(), y.ravel()], axis=1)
        return {
            name: camera.floor_points(grid, seed=number) for number, (name, camera) in enumerate(self.cameras.items())
        }


SITES = {
    "two views that overlap": Site(
        {"gate": PinholeCamera((10, -6, 6), (10, 9)), "yard": PinholeCamera((10, 26, 6), (10, 11))}, (20, 20)
    ),
    "three views that overlap": Site(
        {
            "gate": PinholeCamera((-4, 10, 5), (10, 10)),
            "hall": PinholeCamera((20, 30, 6), (18, 14)),
            "yard": PinholeCamera((34, -2, 6), (24, 10)),
        },
        (30, 20),
    ),
    "two views with a gap": Site(
        {"gate": PinholeCamera((-5, 10, 6), (6, 10)), "yard": PinholeCamera((45, 10, 6), (34, 10))}, (40, 20)
    ),
}


@dataclass(frozen=True, eq=False)
class World:
    """People who walk between random points of a floor."""

    site: Site
    people: int = 12
    seconds: float = 60.0
    fps: int = 10
    noise: tuple[float, float] = EASY
    seed: int = 0
    common: float = 0.5
    """Share of the appearance that all people have in common."""
    vectors: bool = True
    truth: dict[tuple[str, int], int] = field(default_factory=dict)
    """The person of each track."""

    def batches(self) -> list[Batch]:
        """Return one batch of a frame of each camera for each moment; `truth` is known after it."""
        random = np.random.default_rng(self.seed)
        count = round(self.seconds * self.fps)
        paths = self._paths(random, count)
        shared = _unit(random.normal(size=(1, DIMENSIONS)))
        own = _unit(random.normal(size=(self.people, DIMENSIONS)))
        identity = _unit(np.sqrt(self.common) * shared + np.sqrt(1 - self.common) * own)
        frames = {name: make_frames(1, stream=name, size_wh=(16, 16))[0] for name in self.site.cameras}
        tracks = {name: _Tracks(self.people) for name in frames}
        batches = []
        for index in range(count):
            tables, shown = [], []
            for row, (name, camera) in enumerate(self.site.cameras.items()):
                boxes = camera.boxes(paths[index])
                present = ~np.isnan(boxes[:, 0]) & (random.random(self.people) > _MISSING)
                ids = tracks[name].update(present, random, index=index, fps=self.fps)
                self.truth.update({(name, int(ids[person])): person for person in np.flatnonzero(present).tolist()})
                boxes = boxes[present] + random.normal(0, _FEET_PIXELS, (int(present.sum()), 4))
                vector = identity[present] + self._noise(random, row, ids[present])
                extra: dict[str, Any] = {"embedding": _unit(vector).astype(np.float32)} if self.vectors else {}
                tables.append(
                    Objects.from_columns(
                        frame=np.full(len(boxes), row),
                        xyxy=boxes,
                        confidence=np.full(len(boxes), 0.9),
                        class_id=np.zeros(len(boxes)),
                        track_id=ids[present],
                        source=_DETECTOR,
                        extra=extra,
                    )
                )
                shown.append(_at(frames[name], index, self.fps))
            batches.append(Batch(tuple(shown), Objects.concat(tables)))
        return batches

    def _noise(self, random: np.random.Generator, camera: int, track_id: npt.NDArray[np.int64]) -> Floats:
        """Return the noise (N, D) of the appearance of tracks: a part is new each time, a part is the track's own."""
        of_tracks = [
            np.random.default_rng([self.seed, camera, own]).normal(size=DIMENSIONS) for own in track_id.tolist()
        ]
        each, own = np.array(self.noise) / np.sqrt(DIMENSIONS)
        noise: Floats = each * random.normal(size=(len(track_id), DIMENSIONS))
        noise += own * np.array(of_tracks).reshape(-1, DIMENSIONS)
        return noise

    def _paths(self, random: np.random.Generator, count: int) -> Floats:
        """Return where people are, (T, N, 2): they walk to random points of the floor, and sometimes stand."""
        size = np.array(self.site.size_m)
        place = random.random((self.people, 2)) * size
        target = random.random((self.people, 2)) * size
        speed = random.uniform(0.8, 1.7, self.people)
        paths = np.empty((count, self.people, 2))
        for index in range(count):
            way = target - place
            distance = np.linalg.norm(way, axis=1)
            step = np.minimum(speed / self.fps, distance)
            place = place + way * (step / np.maximum(distance, 1e-9))[:, None]
            there = (distance < 0.3) & (random.random(self.people) < 0.5 / self.fps)
            target[there] = random.random((int(there.sum()), 2)) * size
            paths[index] = place
        return paths


class _Tracks:
    """Track ids of one camera: a person gets a new one after two seconds out of view, and sometimes without cause."""

    def __init__(self, people: int) -> None:
        self._ids = np.full(people, -1)
        self._seen = np.full(people, -(1 << 30))
        self._next = 1

    def update(
        self, present: npt.NDArray[np.bool_], random: np.random.Generator, *, index: int, fps: int
    ) -> npt.NDArray[np.int64]:
        switched = random.random(len(present)) < _SWITCHES_PER_SECOND / fps
        new = present & ((index - self._seen > 2 * fps) | switched)
        self._ids[new] = self._next + np.arange(int(new.sum()))
        self._next += int(new.sum())
        self._seen[present] = index
        return self._ids


@dataclass(frozen=True)
class Score:
    """How well global ids are those of people.

    `idf1` counts every object of every frame (Ristani et al., 2016), also those before a track's first decision;
    `merges` are tracks in an id whose most objects are another person's; `splits` are ids more than people have.
    """

    idf1: float
    merges: int
    splits: int
    tracks: int
    ms_per_frame: float


def run(element: MultiCamera, batches: Sequence[Batch]) -> tuple[list[Batch], float]:
    """Return what the element makes of batches, and the milliseconds for each frame."""
    operator = element.build(site_for("multi_camera-1", None))
    began = time.perf_counter()
    made = []
    for batch in batches:
        result = operator.process(batch)
        assert isinstance(result, Batch)
        made.append(result)
    taken = time.perf_counter() - began
    operator.close()
    return made, 1000 * taken / max(1, sum(len(batch) for batch in batches))


def found_ids(batches: Sequence[Batch]) -> Iterator[tuple[str, int, int | None]]:
    """Yield stream, track and global id of every object."""
    for batch in batches:
        column = batch.objects.extra.get("global_id", np.full(len(batch.objects), None)).tolist()
        rows = zip(batch.objects.frame.tolist(), batch.objects.track_id.tolist(), column, strict=True)
        for row, track_id, global_id in rows:
            yield batch.frames[row].stream.name, track_id, global_id


def score(made: Sequence[Batch], truth: dict[tuple[str, int], int], ms_per_frame: float = 0.0) -> Score:
    """Compare global ids with people."""
    both: defaultdict[tuple[int, int], int] = defaultdict(int)
    objects = given = 0
    last: dict[tuple[str, int], int] = {}
    for stream, track_id, global_id in found_ids(made):
        objects += 1
        if global_id is not None:
            given += 1
            both[truth[stream, track_id], global_id] += 1
            last[stream, track_id] = global_id
    people, ids = sorted({person for person, _ in both}), sorted({number for _, number in both})
    table = np.zeros((len(people), len(ids)))
    for (person, number), count in both.items():
        table[people.index(person), ids.index(number)] = count
    matched = float(table[assign(table.astype(np.float32))].sum())
    majority = {number: people[int(table[:, column].argmax())] for column, number in enumerate(ids)}
    owned = {(truth[track], number) for track, number in last.items()}
    return Score(
        idf1=2 * matched / max(1, objects + given),
        merges=sum(truth[track] != majority[number] for track, number in last.items()),
        splits=len({number for _, number in owned}) - len({person for person, _ in owned}),
        tracks=len(last),
        ms_per_frame=ms_per_frame,
    )


def decided(made: Sequence[Batch], truth: dict[tuple[str, int], int]) -> list[tuple[bool, float, bool]]:
    """Return for each track whether it was matched, its last confidence, and whether its id is right.

    The person of an id is that of its first track; a new id is right if the person had none.
    """
    last: dict[tuple[str, int], tuple[int, float]] = {}
    for batch in made:
        columns = (batch.objects.extra[name].tolist() for name in ("global_id", "global_id_confidence"))
        rows = zip(batch.objects.frame.tolist(), batch.objects.track_id.tolist(), *columns, strict=True)
        for row, track_id, global_id, confidence in rows:
            if global_id is not None:
                last[batch.frames[row].stream.name, track_id] = (global_id, confidence)
    owner: dict[int, int] = {}
    found = []
    for track, (global_id, confidence) in last.items():
        person, is_matched = truth[track], global_id in owner
        right = owner[global_id] == person if is_matched else person not in owner.values()
        owner.setdefault(global_id, person)
        found.append((is_matched, confidence, right))
    return found


def print_calibration(seeds: int) -> None:
    """Print how often ids are right, by confidence, with people who look alike."""
    print("\n| id | confidence | tracks | mean confidence | right |\n|---|---|---|---|---|")
    found = []
    for name in SITES:
        for people in (12, 30):
            for seed in range(seeds):
                world = World(SITES[name], noise=HARD, people=people, seconds=40, fps=5, seed=seed + 10)
                batches = world.batches()
                found += decided(run(element_for(world.site, by="appearance"), batches)[0], world.truth)
    for kind, is_matched in (("matched", True), ("new", False)):
        for low, high in ((0, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.001)):
            own = [(confidence, right) for match, confidence, right in found if match == is_matched]
            part = np.array([one for one in own if low <= one[0] < high], np.float64).reshape(-1, 2)
            if len(part):
                confidence, right = part.mean(axis=0)
                print(f"| {kind} | {low}-{min(high, 1):g} | {len(part)} | {confidence:.2f} | {right:.2f} |")


def element_for(site: Site, *, by: str, **options: Any) -> MultiCamera:
    """Return the element for `by`: plan, appearance or both."""
    plan = site.plan() if by in ("plan", "both") else {}
    return MultiCamera(floor=plan, **options)


def evaluate(name: str, *, by: str, noise: tuple[float, float], seed: int = 0, **world: Any) -> Score:
    """Return the score of one scene."""
    made_world = World(SITES[name], noise=noise, seed=seed, vectors=by != "plan", **world)
    batches = made_world.batches()
    made, ms_per_frame = run(element_for(SITES[name], by=by), batches)
    return score(made, made_world.truth, ms_per_frame)


def _at(frame: Frame, index: int, fps: int) -> Frame:
    """Return the frame with another time, and with pixels that nobody looks at."""
    return Frame(frame.stream, index, round(index * 1_000_000_000 / fps), _Sized(SIZE_WH))  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Sized:
    """A surface without pixels."""

    size_wh: tuple[int, int]


def _unit(vectors: Floats) -> Floats:
    found: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--fps", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print("| scene | matched by | IDF1 | merges | splits | tracks | ms per frame |\n|---|---|---|---|---|---|---|")
    for name in SITES:
        for by, noise in (("plan", EASY), ("appearance", EASY), ("appearance", HARD), ("both", EASY), ("both", HARD)):
            found = [
                evaluate(
                    name, by=by, noise=noise, seed=seed, people=options.people, seconds=options.seconds, fps=options.fps
                )
                for seed in range(options.seeds)
            ]
            shown = by if by == "plan" else f"{by}, {'easy' if noise == EASY else 'hard'}"
            mean = [np.mean([getattr(one, key) for one in found]) for key in Score.__dataclass_fields__]
            idf1, merges, splits, tracks, ms = mean
            print(f"| {name} | {shown} | {idf1:.3f} | {merges:.1f} | {splits:.1f} | {tracks:.0f} | {ms:.2f} |")
    print_calibration(options.seeds)


if __name__ == "__main__":
    main()
