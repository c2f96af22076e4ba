"""The light of a scene and what it does to a colour."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tools.world.arrays import Colour, Floats


@dataclass(frozen=True, slots=True)
class Light:
    """Sky light, sun light and haze; `lamps` (0 to 1) says how much lamps and lit windows count."""

    name: str
    ambient: Floats
    sun: Floats
    towards_sun: Floats
    sky_top: Colour
    sky_low: Colour
    shadow: float
    lamps: float

    def on_surface(self, normal: Floats) -> Floats:
        """What a white surface of that unit normal sends back: RGB factors."""
        slope = max(0.0, float(normal @ self.towards_sun))
        bounce = 0.82 + 0.18 * float(normal[2])
        lit: Floats = self.ambient * bounce + self.sun * slope
        return lit

    def on_ground(self) -> Floats:
        """What white ground sends back."""
        return self.on_surface(np.array([0.0, 0.0, 1.0]))

    def lit(self, colour: Colour, *, normal: Floats) -> Colour:
        """A colour under this light, clipped to 255."""
        red, green, blue = np.minimum(np.array(colour) * self.on_surface(normal), 255.0)
        return (float(red), float(green), float(blue))


def random_light(rng: np.random.Generator, *, name: str) -> Light:
    """Light for `name`: day (sunny), overcast or dusk."""
    azimuth = rng.uniform(0, 2 * np.pi)
    height = np.radians(rng.uniform(32, 62) if name == "day" else rng.uniform(8, 16))
    towards = np.array([np.cos(azimuth) * np.cos(height), np.sin(azimuth) * np.cos(height), np.sin(height)])
    if name == "day":
        warm = rng.uniform(0.9, 1.0)
        sun = np.array([0.74, 0.71 * (warm + 1) / 2, 0.66 * warm])
        return Light(name, np.array([0.70, 0.72, 0.76]), sun, towards, (104, 156, 214), (206, 222, 236), 0.52, 0.0)
    if name == "overcast":
        level = rng.uniform(0.92, 1.1)
        flat = np.array([level, level, level * 1.03])
        return Light(name, flat, np.zeros(3), towards, (176, 184, 192), (214, 218, 221), 0.12, 0.0)
    level = rng.uniform(0.42, 0.58)
    blue = np.array([level * 0.90, level * 0.95, level * 1.16])
    low_sun = np.array([0.16, 0.09, 0.05])
    return Light(name, blue, low_sun, towards, (44, 58, 98), (196, 132, 104), 0.14, 1.0)
