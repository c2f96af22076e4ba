"""What the camera adds: shake, blur, bloom of lamps, vignette, leaves before the lens, sensor noise."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
from tools.world.arrays import Floats, Image, RgbImage
from tools.world.scene import MARGIN_PX, Scene

NOISE_BANK = 1400


def shake(scene: Scene, *, frame: int) -> Floats:
    """How far the image is shifted in that frame: (x, y) pixels, a sum of slow swings and a tremor."""
    if not scene.effects.shake_px:
        return np.zeros(2)
    seconds = frame / scene.fps
    phases = np.random.default_rng([scene.seed, 21]).uniform(0, 2 * np.pi, (2, 3))
    swings = np.sin(2 * np.pi * np.array([0.37, 0.91, 2.3]) * seconds + phases) @ np.array([0.55, 0.3, 0.15])
    shift: Floats = np.clip(swings * scene.effects.shake_px, -MARGIN_PX + 2, MARGIN_PX - 2)
    return shift


def finish(base: Image, *, scene: Scene, frame: int, shift: Floats) -> RgbImage:
    """The image that the camera delivers, cut from the larger rendered one."""
    width, height = scene.size_wh
    if scene.effects.shake_px:
        move = np.array([[1, 0, shift[0] - MARGIN_PX], [0, 1, shift[1] - MARGIN_PX]], np.float64)
        seen: Image = cv2.warpAffine(base, move, (width, height), flags=cv2.INTER_LINEAR)
    else:
        seen = base[MARGIN_PX : MARGIN_PX + height, MARGIN_PX : MARGIN_PX + width].copy()
    if scene.light.lamps:
        _bloom(seen)
    _leaves(seen, scene=scene, frame=frame)
    if scene.effects.blur_px:
        seen = cv2.GaussianBlur(seen, (0, 0), scene.effects.blur_px)
    seen *= _vignette(scene.size_wh)[..., None]
    if scene.effects.noise:
        seen += _noise(scene, frame=frame)
    image: RgbImage = np.clip(seen + 0.5, 0, 255).astype(np.uint8)
    return image


def _bloom(seen: Image) -> None:
    small = cv2.resize(seen, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    bright = np.maximum(small - 190, 0)
    halo = cv2.GaussianBlur(bright, (0, 0), 3.5) * 1.1 + cv2.GaussianBlur(bright, (0, 0), 10) * 0.7
    seen += cv2.resize(halo, (seen.shape[1], seen.shape[0]))


@lru_cache(maxsize=8)
def _vignette(size_wh: tuple[int, int]) -> Image:
    x = np.linspace(-1, 1, size_wh[0], dtype=np.float32)[None]
    y = np.linspace(-1, 1, size_wh[1], dtype=np.float32)[:, None]
    fall: Image = (1 - 0.11 * (x * x + y * y)).astype(np.float32)
    return fall


@lru_cache(maxsize=1)
def _noise_bank() -> Image:
    rng = np.random.default_rng(99)
    bank = rng.standard_normal((NOISE_BANK, NOISE_BANK, 1), dtype=np.float32)
    tint = rng.standard_normal((NOISE_BANK, NOISE_BANK, 3), dtype=np.float32)
    return bank * 0.85 + tint * 0.45


def _noise(scene: Scene, *, frame: int) -> Image:
    width, height = scene.size_wh
    rng = np.random.default_rng([scene.seed, 22, frame])
    top, left = rng.integers(NOISE_BANK - height), rng.integers(NOISE_BANK - width)
    return _noise_bank()[top : top + height, left : left + width] * scene.effects.noise


def _leaves(seen: Image, *, scene: Scene, frame: int) -> None:
    """A few leaves that drift across the image."""
    rng = np.random.default_rng([scene.seed, 23])
    width, height = scene.size_wh
    seconds = frame / scene.fps
    for _ in range(scene.effects.leaves):
        start = rng.uniform(0, 1, 2)
        speed = rng.uniform(0.03, 0.1, 2) * (1, 0.8)
        x = (start[0] + seconds * speed[0] + 0.02 * np.sin(seconds * 2 + start[1] * 9)) % 1.2 - 0.1
        y = (start[1] + seconds * speed[1]) % 1.2 - 0.1
        colour = np.array([(150, 96, 40), (120, 110, 44), (96, 74, 40)][rng.integers(3)]) * scene.light.on_ground()
        size = rng.uniform(1.2, 2.6) * width / 640
        axes = (int(size * 16), int(size * 16 * (0.3 + 0.6 * abs(np.sin(seconds * 5 + start[0] * 9)))))
        centre = (int(x * width * 16), int(y * height * 16))
        cv2.ellipse(
            seen, centre, axes, float(seconds * 140 + start[0] * 360) % 360, 0, 360, colour.tolist(), -1, cv2.LINE_8, 4
        )
