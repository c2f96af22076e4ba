"""Live images: taken and encoded only when somebody asks."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from sightline.media import Batch, Surface
from sightline.server.images import Images, encoder
from sightline.testing import make_frames
from tests.waiting import LIMIT_SECONDS


class Encoder:
    """Tells how often it was asked."""

    def __init__(self) -> None:
        self.surfaces: list[Surface] = []

    def __call__(self, surface: Surface, *, largest_wh: tuple[int, int]) -> bytes:
        self.surfaces.append(surface)
        return bytes([len(self.surfaces)])


@pytest.fixture
def encode() -> Encoder:
    return Encoder()


@pytest.fixture
def images(encode: Encoder) -> Images:
    return Images(encode)


@pytest.fixture
def running(images: Images, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Frames pass by all the time; an image stays the newest one, however slow the machine is."""
    monkeypatch.setattr("sightline.server.images._SHORTEST_INTERVAL_SECONDS", LIMIT_SECONDS)
    monkeypatch.setattr("sightline.server.images._FIRST_IMAGE_SECONDS", LIMIT_SECONDS)
    over = threading.Event()
    frames = make_frames(2)

    def pass_by() -> None:
        while not over.wait(0.001):
            images.take(Batch(tuple(frames)), (0, 0))

    thread = threading.Thread(target=pass_by)
    thread.start()
    yield
    over.set()
    thread.join()


def test_nothing_is_encoded_while_nobody_looks(images: Images, encode: Encoder) -> None:
    for frame in make_frames(5):
        images.take(Batch((frame,)), (0,))

    assert encode.surfaces == []


@pytest.mark.usefixtures("running")
def test_who_asks_gets_the_next_frame(images: Images) -> None:
    assert images.jpeg("cam") == b"\x01"


@pytest.mark.usefixtures("running")
def test_many_who_ask_at_once_cost_one_image(images: Images, encode: Encoder) -> None:
    got = {images.jpeg("cam") for _ in range(5)}

    assert got == {b"\x01"}
    assert len(encode.surfaces) == 1


@pytest.mark.usefixtures("running")
def test_the_image_is_a_copy(images: Images, encode: Encoder) -> None:
    images.jpeg("cam")

    plane = make_frames(1)[0].surface.planes[0]
    assert np.array_equal(encode.surfaces[0].planes[0], plane)
    assert encode.surfaces[0].exclusive


def test_a_stream_without_frames_has_no_image(images: Images) -> None:
    assert images.jpeg("cam") is None


@pytest.mark.usefixtures("running")
def test_images_of_streams_that_are_gone_are_forgotten(images: Images) -> None:
    images.jpeg("cam")
    images.keep(["other"])

    assert images.jpeg("cam") == b"\x02"


def test_an_encoder_is_installed() -> None:
    assert encoder() is not None
