"""Adds and removes cameras again and again and prints what the process holds meanwhile; started by test_visits.py."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping

from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.integration.live.watching import Watched, until
from tests.integration.many_pipelines import open_files, resident_mib

MOUNTS = ("stays", "a", "b", "c", "d")
AT_ONCE = 4
"""Visitors that are there together, after the first few."""
STAYS_FPS = 12.5
"""Of the camera that stays: its queue holds two frames, and so much time passes meanwhile on a busy machine."""
WARM_UP = 16
SAMPLES = 8
PATIENCE_SECONDS = 300.0


class Visits:
    """Cameras that come, are seen, and go; `took` are the seconds of each addition and each removal."""

    def __init__(self, watched: Watched, camera: FakeCamera) -> None:
        self.took: list[float] = []
        self._watched, self._camera = watched, camera
        self._present: list[str] = []

    def next(self, number: int) -> None:
        """One more comes; the one that has been there longest goes, once it has been seen."""
        if len(self._present) == AT_ONCE:
            self.leave()
        name = MOUNTS[1 + number % AT_ONCE]
        source = {"uri": self._camera.url_of(name)}
        self._timed(lambda: self._watched.pipeline.add_source(name, source).wait(PATIENCE_SECONDS))
        self._present.append(name)

    def leave(self) -> None:
        """The one that has been there longest goes."""
        name = self._present.pop(0)
        until(lambda: bool(self._watched.frames.get(name)))
        self._timed(lambda: self._watched.pipeline.remove_source(name).wait(PATIENCE_SECONDS))
        del self._watched.frames[name]

    def all_leave(self) -> None:
        """Until nobody is left but the camera that stays."""
        while self._present:
            self.leave()

    def _timed(self, act: Callable[[], object]) -> None:
        begun = time.perf_counter()
        act()
        self.took.append(time.perf_counter() - begun)


def say(**figures: float) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(figures) + "\n")


def counts() -> dict[str, float]:
    """Files and threads of the process."""
    return {"files": open_files(), "threads": threading.active_count()}


def held(watched: Watched, *, alone: Mapping[str, float]) -> dict[str, float]:
    """What the process holds when nobody visits any more: no more files and threads than `alone`, soon after."""
    until(lambda: all(now <= alone[name] for name, now in counts().items()))
    watched.frames["stays"].clear()
    watched.told.clear()
    return {"mib": resident_mib()}


def main(path: str, *, visits: int, a_minute: float | None) -> None:
    """A line after warming up, eight while they come and go, and one of how long that took them."""
    clip = load_clip(path)
    camera = FakeCamera({**dict.fromkeys(MOUNTS, clip), "stays": clip.at_fps(STAYS_FPS)})
    with camera, Watched({"stays": camera.url_of("stays")}) as watched:
        watched.has_frames(5)
        alone = counts()
        coming = Visits(watched, camera)
        for number in range(WARM_UP):
            coming.next(number)
        coming.all_leave()
        say(**held(watched, alone=alone))
        coming.took.clear()
        begun = time.monotonic()
        for number in range(1, visits + 1):
            coming.next(number)
            if a_minute is not None:
                time.sleep(max(0.0, begun + number * 60 / a_minute - time.monotonic()))
            if number % (visits // SAMPLES) == 0:
                coming.all_leave()
                say(**held(watched, alone=alone))
    assert watched.report is not None
    stays = next(one for one in watched.report.streams if one.stream.name == "stays")
    took = sorted(coming.took)
    say(changes=len(took), p99=took[int(len(took) * 0.99)], worst=took[-1], dropped=stays.dropped["overloaded"])


if __name__ == "__main__":
    main(sys.argv[1], visits=int(sys.argv[2]), a_minute=float(sys.argv[3]) if len(sys.argv) > 3 else None)
