"""Every source keeps the contract of sources, and the contract catches one that does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import cv2
import numpy as np
import pytest

from sightline.graph import Site, SourceElement, SourceReader
from sightline.media import Frame, Stream
from sightline.testing import make_frames
from sightline.testing.source_conformance import SourceConformance
from sightline_plugins.sources.file.element import Media
from sightline_plugins.sources.images.element import Images
from sightline_plugins.sources.pattern import Pattern
from tests.conftest import REPOSITORY

CLIP = REPOSITORY / "sample_videos" / "street.mp4"


class TestClip(SourceConformance):
    source = Media.model_validate({"uri": str(CLIP)})
    unreadable = Media.model_validate({"uri": str(REPOSITORY / "pyproject.toml")})


class TestLoopedClip(SourceConformance):
    source = Media.model_validate({"uri": str(CLIP), "duration": "200ms", "loop": True})


class TestPattern(SourceConformance):
    source = Pattern.model_validate({"pattern": "counter"})


class TestImages(SourceConformance):
    @pytest.fixture(autouse=True)
    def images(self, tmp_path: Path) -> None:
        for number in range(4):
            cv2.imwrite(str(tmp_path / f"{number}.png"), np.full((32, 48, 3), 50 * number, np.uint8))
        type(self).source = Images.model_validate({"uri": str(tmp_path / "*.png")})

    source: ClassVar[SourceElement] = Images.model_validate({"uri": "none/*.png"})


class Broken(SourceElement):
    """Delivers frames with some mistake."""

    name: ClassVar[str] = "broken"
    mistake: str

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        return _BrokenReader(self.mistake)


class _BrokenReader(SourceReader):
    def __init__(self, mistake: str) -> None:
        self.mistake = mistake

    def frames(self) -> Iterator[Frame]:
        frames = make_frames(6, stream="cam")
        if self.mistake == "order":
            frames = frames[::-1]
        for frame in frames:
            yield frames[0] if self.mistake == "same" else frame
            if self.mistake == "overwritten":
                for plane in frames[0].surface.planes:
                    plane.setflags(write=True)
                    plane += 1


def kept_by(mistake: str) -> SourceConformance:
    kind: type[SourceConformance] = type("Kind", (SourceConformance,), {"source": Broken(mistake=mistake)})
    return kind()


@pytest.mark.parametrize("mistake", ["order", "same"])
def test_frames_out_of_order_are_caught(mistake: str) -> None:
    with pytest.raises(AssertionError, match="indices do not count"):
        kept_by(mistake).test_frames_are_numbered_and_their_timestamps_rise()


def test_pixels_that_change_later_are_caught() -> None:
    with pytest.raises(AssertionError, match="pixels of a frame changed"):
        kept_by("overwritten").test_a_frame_is_not_changed_by_those_that_follow()
