"""`combine` against a plain evaluation over who enters and leaves two areas, worked out from the true tracks of streets
and entrances that nobody has seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.rules.plain_areas import AREAS, GONE, SECOND, Stay, Times, occupancy, runs, stays, times_of, ways
from tests.unit.rules.stays_world import plain_entrance, plain_street

from sightline.devices import Device
from sightline.graph import Site
from sightline.media import Batch
from sightline_plugins import Combine, Zones

WITHIN, LATELY = 6, 2
RULES = {
    "then": f"zones.a.enter then zones.b.enter within {WITHIN}s",
    "same": {
        "when": f"zones.a.enter then zones.b.enter then zones.b.leave within {WITHIN}s",
        "same_track": True,
    },
    "both": "zones.a.enter and zones.b.enter",
    "alone": f"zones.a.enter and not zones.b.leave within {LATELY}s",
}
WORLDS = {"entrance": plain_entrance, "street": plain_street}
Told = list[tuple[int, str, float]]
"""Frame, state or track, and seconds."""


@dataclass(frozen=True)
class Truth:
    """The stays in both areas by name and track, and when frames are."""

    times: Times
    found: dict[str, list[tuple[int, Stay]]]

    @classmethod
    def of(cls, batch: Batch) -> Truth:
        times = times_of([batch])
        return cls(
            times,
            {
                name: [
                    (track_id, stay)
                    for track_id, where in ways([batch], name).items()
                    for stay in stays(where, times, outside=0)
                ]
                for name in AREAS
            },
        )

    def events(self) -> list[tuple[int, bool, str, int]]:
        """Frame, whether it is an entry, area and track: who leaves on a frame comes before who enters."""
        entered = [(stay.first, True, name, track) for name, own in self.found.items() for track, stay in own]
        left = [
            (stay.known, False, name, track)
            for name, own in self.found.items()
            for track, stay in own
            if stay.known < len(self.times)
        ]
        return sorted(entered + left)

    def is_taken(self, name: str) -> npt.NDArray[np.bool_]:
        """On which frames somebody is in an area."""
        return occupancy([stay for _, stay in self.found[name]], len(self.times)) > 0

    def sequences(self, *parts: tuple[bool, str], same_track: bool) -> Told:
        """What completes a sequence: each event goes on with the latest one of the part before it, if that is not too
        long ago, and what is complete begins anew.
        """
        told: Told = []
        done: dict[int, list[tuple[int, int]]] = {}
        for frame, is_entry, name, track in self.events():
            own = done.setdefault(track if same_track else -1, [])
            now = int(self.times[frame])
            for number in range(min(len(own), len(parts) - 1), -1, -1):
                if parts[number] != (is_entry, name):
                    continue
                if number and now - own[number - 1][0] > WITHIN * SECOND:
                    continue
                began = own[number - 1][1] if number else now
                own[number:] = [(now, began), *own[number + 1 :]]
                if number == len(parts) - 1:
                    own.clear()
                    told.append((frame, str(track), (now - began) / SECOND))
                break
        return told

    def lasting(self, holds: npt.NDArray[np.bool_]) -> Told:
        """The beginnings and ends of what holds on some frames."""
        told: Told = []
        for first, end in runs(holds):
            told.append((first, "begun", 0.0))
            if end < len(holds):
                told.append((end, "ended", (self.times[end] - self.times[first]) / SECOND))
        return told

    def left_lately(self, name: str) -> npt.NDArray[np.bool_]:
        """On which frames somebody has left an area in the time before."""
        ends = np.array(
            [self.times[frame] for frame, is_entry, one, _ in self.events() if one == name and not is_entry]
        )
        since = self.times[:, None] - ends
        lately: npt.NDArray[np.bool_] = ((since >= 0) & (since < LATELY * SECOND)).any(axis=1)
        return lately


def reported(batch: Batch) -> dict[str, Told]:
    areas = {name: {"polygon": polygon, "margin": 0} for name, polygon in AREAS.items()}
    zones = Zones.model_validate({"id": "zones", "gone": GONE / SECOND, **areas}).build(
        Site(device=Device(), element_id="zones")
    )
    combine = Combine.model_validate(RULES).build(Site(device=Device()))
    told: dict[str, Told] = {name: [] for name in RULES}
    for event in combine.process(zones.process(batch)).events:
        if event.kind == "combined":
            state = event.data.get("state", event.data.get("track_id"))
            told[event.rule].append((event.frame, str(state), float(event.data.get("seconds", 0))))
    assert {name: own["times"] for name, own in combine.totals()["cam"].items()} == {
        name: sum(state != "ended" for _, state, _ in own) for name, own in told.items()
    }
    return told


@pytest.mark.parametrize(("kind", "seed", "fps"), [("entrance", 611, 5), ("entrance", 614, 10), ("street", 612, 10)])
def test_what_follows_from_the_truth_is_reported(kind: str, seed: int, fps: int) -> None:
    batch = WORLDS[kind](seed).batch(fps=fps, seed=seed)
    truth = Truth.of(batch)
    in_a = truth.is_taken("a")

    told = reported(batch)

    expected = {
        "then": truth.sequences((True, "a"), (True, "b"), same_track=False),
        "same": truth.sequences((True, "a"), (True, "b"), (False, "b"), same_track=True),
        "both": truth.lasting(in_a & truth.is_taken("b")),
        "alone": truth.lasting(in_a & ~truth.left_lately("b")),
    }
    assert told == {
        name: [(frame, state, round(seconds, 3)) for frame, state, seconds in own] for name, own in expected.items()
    }
    assert min(len(told[name]) for name in ("then", "both", "alone")) > 1, "there was something to report"
