"""Rules of motion in streets that nobody has seen: the truth is what road users do on the ground, in metres."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tools.world.scene import Scene
from tools.world.street import StreetPlan, build_street

from sightline.devices import Device
from sightline.graph import Site
from sightline.graph.rule import Rule
from sightline.media import Batch, Frame, Objects, Origin
from sightline.testing import make_frames
from sightline_plugins import Direction, Speed, Stopped

SEEDS = (3, 101, 202, 303)
RATES = (5, 25)
LANE = [(-3.4, 12.0), (3.4, 12.0), (3.4, 40.0), (-3.4, 40.0)]
"""Four points of the ground whose places are known, in metres."""
NEAREST, FARTHEST = 9.0, 55.0


@dataclass(frozen=True)
class Street:
    """A street with its boxes, and where each road user is on the ground: (F, 2) by track, NaN where not seen."""

    scene: Scene
    batch: Batch
    places: dict[int, npt.NDArray[np.float64]]
    fps: int

    def pixels(self, points: list[tuple[float, float]]) -> list[list[float]]:
        """Places on the ground as fractions of the frame."""
        ground = np.array([(x, y, 0.0) for x, y in points])
        fractions: list[list[float]] = (self.scene.camera.project(ground) / self.scene.camera.size_wh).tolist()
        return fractions

    def run(self, element: Rule) -> Batch:
        operator = element.build(Site(device=Device()))
        made = operator.process(self.batch)
        assert isinstance(made, Batch)
        return made


def street(seed: int, *, fps: int, seconds: int = 16) -> Street:
    plan = StreetPlan(seed=seed, frames=25 * seconds, signal=True, seconds_between=3.0, walkers=6, cyclists=2)
    scene = build_street(plan)
    step = plan.fps // fps
    wh = scene.camera.size_wh
    (still,) = make_frames(1, size_wh=wh)
    frames: list[Frame] = []
    rows: list[tuple[float, ...]] = []
    places: dict[int, npt.NDArray[np.float64]] = {}
    for index, number in enumerate(range(0, plan.frames, step)):
        frames.append(replace(still, index=index, pts_ns=round(number / plan.fps * 1e9)))
        for actor in scene.actors:
            if not actor.is_there(number):
                continue
            x, y = float(actor.x[number - actor.first_frame]), float(actor.y[number - actor.first_frame])
            if not NEAREST < y < FARTHEST:
                continue
            (left, foot), (right, _), (_, top) = scene.camera.project(
                np.array([(x - 0.5, y, 0.0), (x + 0.5, y, 0.0), (x, y, 1.6)])
            )
            if left < 0 or right > wh[0] or top < 0 or foot > wh[1]:
                continue
            rows.append((index, actor.track_id, left, top, right, foot))
            own = places.setdefault(actor.track_id, np.full((plan.frames // step, 2), np.nan))
            own[index] = x, y
    table = np.array(rows, np.float64)
    objects = Objects.from_columns(
        frame=table[:, 0],
        track_id=table[:, 1],
        xyxy=table[:, 2:].round(2),
        confidence=np.ones(len(table)),
        class_id=np.zeros(len(table)),
        source=Origin("truth", ("thing",)),
    )
    return Street(scene, Batch(tuple(frames), objects), places, fps)


def found(batch: Batch, **wanted: object) -> set[int]:
    """The tracks of the events that have such data."""
    return {
        int(event.data["track_id"])
        for event in batch.events
        if all(event.data.get(name) == value for name, value in wanted.items())
    }


@pytest.mark.parametrize("fps", RATES)
@pytest.mark.parametrize("seed", SEEDS)
def test_speeds_are_those_on_the_ground(seed: int, fps: int) -> None:
    seen = street(seed, fps=fps)
    ground = {"frame": seen.pixels(LANE), "width": 6.8, "length": 28}
    made = seen.run(Speed.model_validate({"unit": "m/s", "road": {"ground": ground, "window": "1s"}}))

    speeds, uncertain = made.objects.extra["speed"], made.objects.extra["speed_uncertainty"]
    differences: list[tuple[float, float]] = []
    for frame, track_id, speed, doubt in zip(
        made.objects.frame.tolist(), made.objects.track_id.tolist(), speeds.tolist(), uncertain.tolist(), strict=True
    ):
        own = seen.places[track_id][max(0, frame - fps) : frame + 1]
        if np.isnan(speed) or np.isnan(own).any() or len(own) <= fps:
            continue
        times = np.arange(len(own)) / fps
        truth = np.hypot(*np.polyfit(times, own, 1)[0])
        differences.append((abs(speed - truth), doubt))
    off, doubt = np.array(differences).T

    assert len(off) > 20 * fps
    assert (off <= doubt).mean() > 0.95
    assert np.median(off) < 0.1


@pytest.mark.parametrize("fps", RATES)
@pytest.mark.parametrize("seed", SEEDS)
def test_directions_are_those_on_the_ground(seed: int, fps: int) -> None:
    """Whoever drives away from the camera moves upwards on the screen."""
    seen = street(seed, fps=fps)
    made = seen.run(Direction.model_validate({"road": {"allowed": 90, "tolerance": 85, "distance": 0.03}}))

    away: set[int] = set()
    towards: set[int] = set()
    surely: set[int] = set()
    height = seen.scene.camera.size_wh[1]
    for track_id, own in seen.places.items():
        y = own[~np.isnan(own[:, 1]), 1]
        feet = seen.batch.objects.xyxy[seen.batch.objects.track_id == track_id, 3]
        (away if y[-1] > y[0] else towards).add(track_id)
        if np.ptp(feet) > 2 * 0.03 * height:
            surely.add(track_id)

    assert found(made, state="right") <= away
    assert found(made, state="wrong") <= towards
    assert surely <= found(made)
    assert len(surely) > 5


@pytest.mark.parametrize("fps", RATES)
@pytest.mark.parametrize("seed", SEEDS)
def test_who_stands_is_who_stands_on_the_ground(seed: int, fps: int) -> None:
    seen = street(seed, fps=fps)
    made = seen.run(Stopped.model_validate({"road": {"after": "2s", "distance": 0.01}}))

    stands: set[int] = set()
    drives: set[int] = set()
    for track_id, own in seen.places.items():
        y = own[~np.isnan(own[:, 1])]
        pace = np.hypot(*np.diff(y, axis=0).T) * fps
        still = longest_run(pace < 0.01) / fps
        if still >= 2.5:
            stands.add(track_id)
        elif len(pace) and pace.min() > 4:
            drives.add(track_id)

    reported = found(made, state="stopped")
    assert stands <= reported
    assert not reported & drives
    assert drives


def longest_run(mask: npt.NDArray[np.bool_]) -> int:
    longest = now = 0
    for one in mask.tolist():
        now = now + 1 if one else 0
        longest = max(longest, now)
    return longest


def test_some_stand_at_the_signal() -> None:
    stopped: dict[str, Any] = {"after": "2s", "distance": 0.01}

    assert any(found(street(seed, fps=5).run(Stopped.model_validate({"road": stopped}))) for seed in SEEDS)
