"""Clips whose SPS crops the image, on the CPU: exactly what the SPS leaves, to the byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.integration.sources.cropped import Coding, cut, part_of, write_changing_crop, write_cropped
from tests.reading import Seen, frames_of

from sightline_plugins.codecs.bitstream import size_of_image
from sightline_plugins.codecs.sps import Crop
from sightline_plugins.decode.open_media import OpenOptions, open_media, video_stream

CODECS = ["libx264", "libx265"]
CROPS = [Crop(), Crop(2), Crop(0, 2), Crop(6, 4, 2, 8), Crop(64, 32), Crop(0, 0, 6, 2)]


def are_cut(seen: list[Seen], path: Path, crop: Crop) -> bool:
    """Whether these are the images of a clip without the crop, cut by hand."""
    expected = list(cut(path, crop))
    return len(seen) == len(expected) and all(
        all(np.array_equal(one, other) for one, other in zip(frame.planes, planes, strict=True))
        for frame, planes in zip(seen, expected, strict=True)
    )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("crop", CROPS, ids=str)
def test_an_image_is_what_the_sps_leaves_of_it(tmp_path: Path, codec: str, crop: Crop) -> None:
    path = write_cropped(tmp_path / "clip.mp4", crop, coding=Coding(codec, b_frames=2))

    seen, _ = frames_of(path)

    assert {frame.size_wh for frame in seen} == {(160 - crop.left - crop.right, 96 - crop.top - crop.bottom)}
    assert are_cut(seen, path, crop)


@pytest.mark.parametrize("codec", CODECS)
def test_sides_may_be_odd_where_chroma_is_not_halved(tmp_path: Path, codec: str) -> None:
    crop = Crop(3, 5, 2, 4)
    path = write_cropped(tmp_path / "clip.mkv", crop, coding=Coding(codec, pixel_format="yuv444p"))

    assert are_cut(frames_of(path)[0], path, crop)


@pytest.mark.parametrize("codec", CODECS)
def test_a_crop_that_changes_is_followed(tmp_path: Path, codec: str) -> None:
    crops = [Crop(8), Crop(0, 0, 8), Crop(2, 6, 6, 2), Crop()]
    path = write_changing_crop(tmp_path / "clip.ts", *crops, coding=Coding(codec))

    seen, _ = frames_of(path)

    assert len(seen) == 20 * len(crops)
    for number, crop in enumerate(crops):
        assert are_cut(seen[20 * number : 20 * (number + 1)], part_of(path, number), crop)


@pytest.mark.parametrize("codec", CODECS)
def test_the_size_that_recordings_are_told_is_that_of_the_frames(tmp_path: Path, codec: str) -> None:
    path = write_cropped(tmp_path / "clip.ts", Crop(6, 4, 2, 8), coding=Coding(codec), count=1)
    options = OpenOptions()
    container = open_media(str(path), stream="cam", options=options)
    video = video_stream(container, number=0, stream="cam", uri=str(path), options=options)
    data, name = bytes(next(container.demux(video))), video.codec_context.name
    container.close()

    assert size_of_image(name, data, configuration=b"", max_pixels=10**6) == (152, 84)
