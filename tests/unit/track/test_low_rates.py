"""People who walk through the image are counted at any frame rate, and not one in fifty too often."""

from __future__ import annotations

import pytest
from benchmarks.tracking.contestants import ours
from benchmarks.tracking.walkers import Walkers, counted

LEAST = {2: 0.8, 5: 0.9, 8: 0.95, 12: 0.97, 30: 0.98, 60: 0.98}
"""The share of line crossings and zone entries that is found, by frames a second, but for one."""
MOST = 1.02
MOST_FPS = 60
"""A rate that takes twice as long as the next one, and whose limits are the same: it is tried on a crowd."""
SCENES = {"some people": Walkers(40, 7), "a crowd": Walkers(110, 3), "many boxes missing": Walkers(40, 5, missing=0.15)}


@pytest.mark.parametrize(
    ("scene", "fps"), [(scene, fps) for scene in SCENES for fps in LEAST if fps < MOST_FPS or scene == "a crowd"]
)
def test_rules_count_people_at_any_frame_rate(scene: str, fps: int) -> None:
    for name, (there, found) in counted(SCENES[scene], fps=fps, maker=ours()).items():
        assert there > 20, name
        assert LEAST[fps] * there - 1 <= found <= MOST * there + 1, name
