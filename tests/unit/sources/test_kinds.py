from __future__ import annotations

from pathlib import Path

import pytest

from sightline.graph.registry import Registry


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("street.mp4", "media"),
        ("clips/*.mp4", "media"),
        ("no_suffix", "media"),
        ("https://example.org/picture.jpg", "media"),
        ("udp://239.0.0.1:5000", "media"),
        ("rtsp://10.0.0.7/main", "rtsp"),
        ("RTSPS://10.0.0.7/main", "rtsp"),
        ("shelf.JPG", "images"),
        ("frames/*.png", "images"),
        ("frames/%06d.tiff", "images"),
        ("frames/*", "images"),
    ],
)
def test_a_uri_goes_to_the_kind_that_reads_it(uri: str, kind: str) -> None:
    assert Registry().source_for(uri).name == kind


def test_a_folder_goes_to_images(tmp_path: Path) -> None:
    assert Registry().source_for(str(tmp_path)).name == "images"
