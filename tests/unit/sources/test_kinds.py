from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import ConfigurationError
from sightline.graph.registry import Registry
from sightline_plugins.sources.file.element import Media
from sightline_plugins.sources.live.rtsp import Rtsp


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("street.mp4", "media"),
        ("clips/*.mp4", "media"),
        ("no_suffix", "media"),
        ("https://example.org/image.jpg", "media"),
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


@pytest.mark.parametrize("uri", ["gopher://host/x", "concat://x", "ftp://host/x.mp4"])
def test_a_scheme_that_nothing_reads_belongs_to_no_kind(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="no installed kind of source reads"):
        Registry().source_for(uri)


@pytest.mark.parametrize(
    ("kind", "uri", "cause"),
    [
        (Rtsp, "rtsp://10.0.0.7:99999/main", "port"),
        (Rtsp, "rtsp://10.0.0.7:main", "port"),
        (Rtsp, "rtsp:///main", "has no host: write rtsp://HOST/PATH"),
        (Media, "http://:80/a.mp4", "has no host"),
        (Media, "udp://239.0.0.1:0", "port"),
        (Media, "http://[::1/a.mp4", "port"),
        (Rtsp, "rtsp://user:pass#word@10.0.0.7/main", "in a password / is written %2F"),
    ],
)
def test_an_address_that_can_not_be_one_is_a_mistake(kind: type[Media] | type[Rtsp], uri: str, cause: str) -> None:
    with pytest.raises(ConfigurationError, match=cause):
        kind(uri=uri)


@pytest.mark.parametrize(
    "uri",
    ["udp://@:5000", "udp://239.0.0.1:5000", "file:///clips/a.mp4", "http://h/a?b=c:d", "http://u:p[w@[::1]:80/a"],
)
def test_other_addresses_are_taken(uri: str) -> None:
    assert Media(uri=uri).uri == uri
