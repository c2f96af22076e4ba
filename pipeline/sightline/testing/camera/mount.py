"""One camera of a server: its clip, what is wrong with it, what it has sent."""

from __future__ import annotations

import random
import time

from sightline.testing.camera.clip import Clip
from sightline.testing.camera.faults import Faults, Sent
from sightline.testing.camera.payloads import payloads


class Reel:
    """A clip in the camera, since `begun_ns` (monotonic); images are cut into payloads once, when first wanted."""

    def __init__(self, clip: Clip) -> None:
        self.clip = clip
        self.begun_ns = time.monotonic_ns()
        self._payloads: dict[int, tuple[bytes, ...]] = {}
        self.payloads(0)

    def payloads(self, number: int) -> tuple[bytes, ...]:
        """The RTP payloads of that image. Raises ValueError when RTP cannot carry it."""
        if number not in self._payloads:
            self._payloads[number] = payloads(self.clip.packets[number], clip=self.clip)
        return self._payloads[number]


class Mount:
    """A camera at `/name`. `faults` may be set and `sent` be read from any thread."""

    def __init__(self, name: str, clip: Clip, *, seed: int) -> None:
        self.name = name
        self.reel = Reel(clip)
        self.faults = Faults()
        self.sent = Sent()
        self.random = random.Random(f"{seed} {name}")

    @property
    def clip(self) -> Clip:
        """What it shows."""
        return self.reel.clip

    def swap(self, clip: Clip) -> None:
        """Show another clip from the next image on, from its beginning. Sessions go on with new parameter sets in
        band; when the codec is another one they are ended, as cameras do. Raises ValueError when RTP cannot carry it.
        """
        self.reel = Reel(clip)
