"""What a scene is: camera, light, ground, scenery, actors, effects and rules; immutable values."""

from __future__ import annotations

from dataclasses import dataclass

from tools.world.arrays import Colour, Floats
from tools.world.buildings import Building, Entrance
from tools.world.camera import Camera
from tools.world.ground import Plaza, Road
from tools.world.light import Light
from tools.world.people import Person
from tools.world.rules import Line, Zone
from tools.world.scenery import Thing
from tools.world.vehicles import Vehicle

LABELS = ("person", "bicycle", "car", "van", "truck", "bus")

MARGIN_PX = 12
"""The scene is rendered this much larger on each side, so that a shaking camera never sees its edge."""


@dataclass(frozen=True, slots=True)
class Cyclist:
    """A rider and the colour of the bicycle."""

    rider: Person
    frame: Colour


@dataclass(frozen=True, slots=True)
class Actor:
    """Something to be found: its identity, look, and where it is at each frame from `first_frame` on."""

    track_id: int
    label: str
    look: Vehicle | Person | Cyclist
    first_frame: int
    x: Floats
    y: Floats
    heading: Floats
    stride: Floats
    moving: Floats

    def is_there(self, frame: int) -> bool:
        """Whether it takes part in that frame."""
        return self.first_frame <= frame < self.first_frame + len(self.x)


@dataclass(frozen=True, slots=True)
class Effects:
    """What camera and weather do: sensor noise (levels), shake (pixels), blur (pixels), cloud shadows, leaves."""

    noise: float
    shake_px: float
    blur_px: float
    clouds: float
    leaves: int


CALM = Effects(noise=1.6, shake_px=0.0, blur_px=0.0, clouds=0.1, leaves=3)
"""A fixed camera on a fair day."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene of `frames` images; `camera` looks at an image with MARGIN_PX more on each side."""

    seed: int
    size_wh: tuple[int, int]
    fps: int
    frames: int
    camera: Camera
    light: Light
    ground: Road | Plaza
    houses: tuple[Building, ...]
    entrance: Entrance | None
    things: tuple[Thing, ...]
    actors: tuple[Actor, ...]
    effects: Effects
    lines: tuple[Line, ...]
    zones: tuple[Zone, ...]
