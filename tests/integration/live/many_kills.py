"""Kills cameras many times and prints what the process holds in between; started by test_isolation.py."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import ExitStack

from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.integration.live.watching import Watched, until
from tests.integration.many_pipelines import open_files, resident_mib

WARM_UP, SAMPLES = 3, 5


def reconnects(watched: Watched) -> list[int]:
    """Of each camera so far."""
    return [status.counts["reconnects"] for status in watched.pipeline.status()]


def counts() -> tuple[int, int]:
    """Files and threads of the process."""
    return open_files(), threading.active_count()


def held(watched: Watched, *, kills: int, most: tuple[int, int]) -> str:
    """One line of JSON, as soon as the process has no more files and threads than at `most`."""
    until(lambda: all(now <= one for now, one in zip(counts(), most, strict=True)))
    for frames in watched.frames.values():
        frames.clear()
    watched.told.clear()
    return json.dumps({"mib": resident_mib(), "kills": kills, "reconnects": sum(reconnects(watched))}) + "\n"


def kill(cameras: list[FakeCamera], watched: Watched) -> None:
    """All of them once, and wait until they are back."""
    before = reconnects(watched)
    for camera in cameras:
        camera.kill()
        camera.restart()
    until(lambda: all(now > one for now, one in zip(reconnects(watched), before, strict=True)))


def main(path: str, *, kills: int, at_once: int) -> None:
    """A line after warming up, and five while they are killed."""
    clip = load_clip(path)
    with ExitStack() as stack:
        cameras = [stack.enter_context(FakeCamera(clip)) for _ in range(at_once)]
        sources = {f"cam{number}": camera.url for number, camera in enumerate(cameras)}
        with Watched(sources) as watched:
            watched.has_frames(5)
            most = counts()
            for _ in range(WARM_UP):
                kill(cameras, watched)
            sys.stdout.write(held(watched, kills=0, most=most))
            waves = kills // at_once
            for number in range(1, waves + 1):
                kill(cameras, watched)
                if number % (waves // SAMPLES) == 0:
                    sys.stdout.write(held(watched, kills=number * at_once, most=most))


if __name__ == "__main__":
    main(sys.argv[1], kills=int(sys.argv[2]), at_once=int(sys.argv[3]))
