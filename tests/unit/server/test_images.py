"""Live images: taken and encoded only when somebody asks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

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
    monkeypatch.setattr("sightline.server.images._FIRST_FRAME_SECONDS", LIMIT_SECONDS)
    over = threading.Event()

    def pass_by() -> None:
        while not over.wait(0.001):
            pass_one(images)

    thread = threading.Thread(target=pass_by)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks waits until the test lets a frame pass; nothing counts as fresh."""
    monkeypatch.setattr("sightline.server.images._SHORTEST_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr("sightline.server.images._FIRST_FRAME_SECONDS", LIMIT_SECONDS)
    monkeypatch.setattr("sightline.server.images._NEXT_FRAME_SECONDS", LIMIT_SECONDS)


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits, and nothing counts as fresh."""
    for name in ("_SHORTEST_INTERVAL_SECONDS", "_FIRST_FRAME_SECONDS", "_NEXT_FRAME_SECONDS"):
        monkeypatch.setattr(f"sightline.server.images.{name}", 0.0)


def pass_one(images: Images) -> None:
    images.take(Batch(tuple(make_frames(2))), (0, 0))


def newest(images: Images) -> bytes | None:
    return asyncio.run(images.newest("cam"))


async def when_wanted(images: Images, asked: asyncio.Task[bytes | None]) -> bytes | None:
    """Let a frame pass when somebody waits for it, and return what they get."""
    while not images._wanted.get("cam"):
        await asyncio.sleep(0.001)
    pass_one(images)
    return await asked


def test_nothing_is_encoded_while_nobody_looks(images: Images, encode: Encoder) -> None:
    for frame in make_frames(5):
        images.take(Batch((frame,)), (0,))

    assert encode.surfaces == []


@pytest.mark.usefixtures("running")
def test_who_asks_gets_the_next_frame(images: Images) -> None:
    assert newest(images) == b"\x01"


@pytest.mark.usefixtures("running")
def test_many_who_ask_at_once_cost_one_image(images: Images, encode: Encoder) -> None:
    async def ask() -> list[bytes | None]:
        return await asyncio.gather(*(images.newest("cam") for _ in range(20)))

    assert set(asyncio.run(ask())) == {b"\x01"}
    assert len(encode.surfaces) == 1


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("ask", [Images.newest, Images.following])
def test_who_asks_again_waits_for_the_next_frame(images: Images, ask: Callable[..., Any]) -> None:
    async def ask_twice() -> list[bytes | None]:
        return [await when_wanted(images, asyncio.create_task(ask(images, "cam"))) for _ in range(2)]

    assert asyncio.run(ask_twice()) == [b"\x01", b"\x02"]


@pytest.mark.usefixtures("slow")
def test_the_last_image_stays_while_no_frames_come(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask_twice() -> list[bytes | None]:
        first = await when_wanted(images, asyncio.create_task(images.newest("cam")))
        monkeypatch.setattr("sightline.server.images._NEXT_FRAME_SECONDS", 0.0)
        return [first, await images.newest("cam")]

    assert asyncio.run(ask_twice()) == [b"\x01", b"\x01"]


@pytest.mark.usefixtures("no_patience")
def test_a_frame_that_came_too_late_is_shown_to_who_asks_again(images: Images) -> None:
    assert newest(images) is None
    pass_one(images)

    assert newest(images) == b"\x01"


@pytest.mark.usefixtures("no_patience")
def test_a_frame_that_came_too_late_is_not_the_next_one_of_who_asks_later(images: Images) -> None:
    assert asyncio.run(images.following("cam")) is None
    pass_one(images)

    assert asyncio.run(images.following("cam")) is None


@pytest.mark.usefixtures("running")
def test_the_image_is_a_copy(images: Images, encode: Encoder) -> None:
    newest(images)

    plane = make_frames(1)[0].surface.planes[0]
    assert np.array_equal(encode.surfaces[0].planes[0], plane)
    assert encode.surfaces[0].exclusive


@pytest.mark.usefixtures("no_patience")
def test_a_stream_without_frames_has_no_image(images: Images) -> None:
    assert newest(images) is None


@pytest.mark.usefixtures("running")
def test_images_of_streams_that_are_gone_are_forgotten(images: Images) -> None:
    newest(images)
    images.keep(["other"])

    assert newest(images) == b"\x02"


def test_an_encoder_is_installed() -> None:
    assert encoder() is not None
