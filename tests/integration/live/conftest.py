"""Clips that fake cameras show."""

from __future__ import annotations

import pytest

from sightline_plugins.commands.camera.clip import Clip
from tests.integration.camera.clips import noise_clip


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    """Two seconds of noise at 25 fps, a key frame every ten, in several packets each."""
    return noise_clip(tmp_path_factory.mktemp("clips"))
