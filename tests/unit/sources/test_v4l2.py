"""Cameras of this machine: how they are named and what the driver is asked for."""

from __future__ import annotations

import pytest

from sightline.devices import Device
from sightline.errors import ConfigurationError, StreamError
from sightline.graph import Site
from sightline.media import Stream
from sightline_plugins import Media, V4l2


@pytest.mark.parametrize("uri", ["/dev/video0", "/dev/video12", "/dev/v4l/by-id/usb-Desk_Camera-index0"])
def test_devices_are_for_this_source_and_no_other(uri: str) -> None:
    assert V4l2.accepts(uri)
    assert not Media.accepts(uri)
    assert V4l2(uri=uri).live


@pytest.mark.parametrize("uri", ["/dev/sda", "/dev/video", "/dev/v4l/by-id/a/../../sda", "video0.mp4"])
def test_nothing_else_is_a_device(uri: str) -> None:
    with pytest.raises(ConfigurationError):
        V4l2(uri=uri)


def test_the_driver_is_asked_for_what_is_wanted() -> None:
    source = V4l2(uri="/dev/video0", size=(1280, 720), fps=30, input_format="mjpeg")

    assert source.demuxer_options() == {"video_size": "1280x720", "framerate": "30", "input_format": "mjpeg"}


def test_a_camera_that_is_not_plugged_in_is_told_and_worth_another_attempt() -> None:
    reader = V4l2(uri="/dev/video63").build(Site(device=Device()), stream=Stream("desk", live=True))

    with pytest.raises(StreamError, match="/dev/video63"):
        next(reader.frames())
