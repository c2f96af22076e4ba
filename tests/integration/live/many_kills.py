"""Kills a camera many times and prints what the process holds in between; started by test_isolation.py."""

from __future__ import annotations

import json
import sys
import threading

from sightline.testing.camera import FakeCamera
from sightline_plugins.decode.clip_packets import load_clip
from tests.integration.live.watching import Watched, until
from tests.integration.many_pipelines import open_files, resident_mib

WARM_UP, SAMPLES = 5, 5


def held(watched: Watched, *, kills: int) -> str:
    """One line of JSON."""
    (status,) = watched.pipeline.status()
    watched.frames["cam"].clear()
    watched.told.clear()
    figures = {"mib": resident_mib(), "files": open_files(), "threads": threading.active_count()}
    return json.dumps({**figures, "kills": kills, "reconnects": status.reconnects - WARM_UP}) + "\n"


def kill(camera: FakeCamera, watched: Watched) -> None:
    """Once, and wait until it is back."""
    before = watched.pipeline.status()[0].reconnects
    camera.kill()
    camera.restart()
    until(lambda: watched.pipeline.status()[0].reconnects > before)


def main(path: str, *, kills: int) -> None:
    """A line after warming up, and five or more while it is killed."""
    with FakeCamera(load_clip(path)) as camera, Watched({"cam": camera.url}) as watched:
        watched.has_frames(5)
        for _ in range(WARM_UP):
            kill(camera, watched)
        sys.stdout.write(held(watched, kills=0))
        for number in range(1, kills + 1):
            kill(camera, watched)
            if number % (kills // SAMPLES) == 0:
                sys.stdout.write(held(watched, kills=number))


if __name__ == "__main__":
    main(sys.argv[1], kills=int(sys.argv[2]))
