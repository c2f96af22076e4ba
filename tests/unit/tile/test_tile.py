"""The step `tile`: what its video shows, what changes live, and which options are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

from sightline.config import InvalidConfiguration, load_description
from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph import CheckContext, Message, Outputs, Site
from sightline.graph.site import SystemClock
from sightline.media import Batch, Frame, Objects, Origin, PixelFormat, Stream, Surface
from sightline.media.convert import surface_from_rgb
from sightline.testing import run_element
from sightline.testing.run import site_for
from sightline_plugins import Privacy, Tile
from sightline_plugins.tile.tiler import Tiler

RED, GREEN, BLUE, WHITE, BLACK = (200, 30, 30), (30, 160, 30), (30, 30, 200), (235, 235, 235), (0, 0, 0)
SIZE_WH = (64, 48)
Rgb = tuple[int, int, int]
PLAIN: dict[str, Any] = {"size": [128, 96], "labels": False, "video": {"path": "wall.mp4", "quality": 4}}


class ManualClock(SystemClock):
    """A clock that goes on when a test says so."""

    def __init__(self) -> None:
        self.now_ns = 10**12

    def monotonic_ns(self) -> int:
        """The time that the test has set."""
        return self.now_ns


def one_color(name: str, rgb: Rgb, *, count: int, size_wh: tuple[int, int] = SIZE_WH, fps: int = 25) -> list[Frame]:
    image = np.broadcast_to(np.array(rgb, np.uint8), (*size_wh[::-1], 3))
    surface = surface_from_rgb(image).shared()
    return [Frame(Stream(name), index, index * 10**9 // fps, surface) for index in range(count)]


def in_turn(*streams: Sequence[Frame]) -> list[Batch]:
    """A batch of each moment."""
    return [Batch(frames) for frames in zip(*streams, strict=True)]


def tile(**options: Any) -> Tile:
    return Tile.model_validate({**PLAIN, **options})


def built(element: Tile, folder: Path, *names: str, messages: list[Message] | None = None) -> Tiler:
    """Its operator in a run of the streams of these names."""
    operator = element.build(site_for("wall", folder, messages, streams=names))
    assert isinstance(operator, Tiler)
    return operator


def run(element: Tile, batches: Sequence[Batch], folder: Path, *, messages: list[Message] | None = None) -> list[Batch]:
    """Run the step over files; return what came out of it."""
    names = list(dict.fromkeys(frame.stream.name for batch in batches for frame in batch.frames))
    operator = built(element, folder, *names, messages=messages)
    passed = [operator.process(batch) for batch in batches]
    finish(operator, *names)
    return passed


def finish(operator: Tiler, *names: str) -> None:
    """End these streams, and the run."""
    for name in names:
        operator.end_stream(Stream(name))
    operator.drain()
    operator.close()


def decoded(path: Path) -> list[npt.NDArray[np.uint8]]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24").astype(np.uint8) for frame in container.decode(video=0)]


def video_of(folder: Path) -> list[npt.NDArray[np.uint8]]:
    return decoded(folder / "wall.mp4")


def color_at(image: npt.NDArray[np.uint8], x: int, y: int) -> Rgb:
    """The known colour that a small part of the image has."""
    mean = image[y - 4 : y + 4, x - 4 : x + 4].reshape(-1, 3).mean(axis=0)
    return min((RED, GREEN, BLUE, WHITE, BLACK), key=lambda rgb: float(np.abs(mean - rgb).sum()))


def is_red_somewhere(image: npt.NDArray[np.int_]) -> bool:
    return bool(((image[..., 0] > 120) & (image[..., 2] < 90)).any())


def quarters(image: npt.NDArray[np.uint8]) -> list[Rgb]:
    return [color_at(image, x, y) for y in (24, 72) for x in (32, 96)]


def test_streams_lie_in_a_grid_in_their_order(tmp_path: Path) -> None:
    streams = [one_color(name, rgb, count=3) for name, rgb in (("b", RED), ("a", GREEN), ("c", BLUE))]

    passed = run(tile(), batches := in_turn(*streams), tmp_path)

    images = video_of(tmp_path)
    assert len(images) == 3
    assert images[0].shape == (96, 128, 3)
    assert quarters(images[2]) == [RED, GREEN, BLUE, BLACK]
    assert all(one is other for one, other in zip(passed, batches, strict=True))


def test_patterns_say_the_order_of_tiles(tmp_path: Path) -> None:
    streams = [one_color(name, rgb, count=2) for name, rgb in (("b", RED), ("a", GREEN), ("c", BLUE))]

    run(tile(streams=["c", "*"]), in_turn(*streams), tmp_path)

    assert quarters(video_of(tmp_path)[1]) == [BLUE, RED, GREEN, BLACK]


@pytest.mark.parametrize(("keep_aspect", "edge"), [(True, BLACK), (False, WHITE)])
def test_other_proportions_have_bars_unless_they_fill_their_tile(keep_aspect: bool, edge: Rgb, tmp_path: Path) -> None:
    frames = one_color("tall", WHITE, count=2, size_wh=(30, 90))

    run(tile(keep_aspect=keep_aspect), in_turn(frames), tmp_path)

    image = video_of(tmp_path)[1]
    assert color_at(image, 64, 48) == WHITE
    assert color_at(image, 16, 48) == edge == color_at(image, 112, 48)


def test_a_stream_that_changes_its_size_leaves_nothing_behind(tmp_path: Path) -> None:
    wide = one_color("cam", RED, count=2, size_wh=(96, 32))
    tall = one_color("cam", GREEN, count=4, size_wh=(32, 96))[2:]

    run(tile(), in_turn([*wide, *tall]), tmp_path)

    images = video_of(tmp_path)
    assert [color_at(images[0], x, 48) for x in (8, 64, 120)] == [RED] * 3
    assert [color_at(images[3], x, 48) for x in (8, 64, 120)] == [BLACK, GREEN, BLACK]


def test_labels_are_written_and_what_is_over_is_marked(tmp_path: Path) -> None:
    streams = one_color("long", BLUE, count=6), one_color("short", BLUE, count=2)
    operator = built(tile(labels=True, rows=1), tmp_path, "long", "short")
    for batch in in_turn(streams[0][:2], streams[1]):
        operator.process(batch)
    operator.end_stream(Stream("short"))
    operator.process(Batch(tuple(streams[0][2:])))
    finish(operator, "long")

    first, *_, last = (image.astype(int) for image in video_of(tmp_path))
    assert (first[72:, :40] < 60).all(axis=2).any(), "a name on black"
    assert not is_red_somewhere(first)
    assert is_red_somewhere(last[:, 64:]), "the stream that is over is marked"
    assert not is_red_somewhere(last[:, :64])


def test_what_was_hidden_before_stays_hidden(tmp_path: Path) -> None:
    frames = one_color("cam", WHITE, count=3)
    found = Objects.from_columns(
        frame=[0], xyxy=[[16, 12, 48, 36]], confidence=[0.9], class_id=[0], source=Origin("detect-1", ("face",))
    )
    batches = [Batch((frame,), found).with_search("detect-1", {0}) for frame in frames]
    hidden = run_element(Privacy(on="face", detector="detect-1", method="fill", margin=0), batches)

    run(tile(), hidden, tmp_path)

    for image in video_of(tmp_path):
        assert color_at(image, 64, 48) == BLACK
        assert color_at(image, 8, 8) == WHITE


def test_one_stream_is_shown_alone_and_all_again(tmp_path: Path) -> None:
    streams = one_color("a", RED, count=6), one_color("b", GREEN, count=6)
    operator = built(tile(rows=2, fps=25), tmp_path, "a", "b")
    for batch in in_turn(*streams):
        if batch.frames[0].index in (2, 4):
            operator.change(tile(rows=2, fps=25, select="b" if batch.frames[0].index == 2 else None))
        operator.process(batch)
    finish(operator, "a", "b")

    shown = [(color_at(image, 64, 24), color_at(image, 64, 72)) for image in video_of(tmp_path)]
    assert shown == [(RED, GREEN)] * 2 + [(GREEN, GREEN)] * 2 + [(RED, GREEN)] * 2


def test_a_camera_that_comes_gets_a_tile(tmp_path: Path) -> None:
    clock = ManualClock()
    site = Site(Device(), "wall", clock=clock, outputs=Outputs(tmp_path), live=True, streams=("a",))
    operator = tile(columns=1).build(site)
    streams = one_color("a", RED, count=4), one_color("b", GREEN, count=4)
    for index in range(4):
        operator.process(Batch(tuple(frames[index] for frames in streams[: 1 if index < 2 else 2])))
        clock.now_ns += 40_000_000
    operator.drain()
    operator.close()

    images = video_of(tmp_path)
    assert [(color_at(image, 64, 24), color_at(image, 64, 72)) for image in images] == [
        *[(RED, RED)] * 2,
        *[(RED, GREEN)] * 2,
    ]
    assert operator.totals()["wall"]["images"] == 4


def test_a_batch_of_many_frames_gives_the_same_video(tmp_path: Path) -> None:
    noise = np.random.default_rng(5)
    streams = [
        [
            Frame(Stream(name), index, index * 10**9 // fps, noisy(noise, pixel_format))
            for index in range(12 * fps // 25)
        ]
        for name, fps, pixel_format in (("a", 25, PixelFormat.I420), ("b", 50, PixelFormat.NV12))
    ]
    videos = []
    for number, size in enumerate((1, 36)):
        folder = tmp_path / str(number)
        order = sorted((frame for frames in streams for frame in frames), key=lambda frame: frame.pts_ns)
        batches = [Batch(tuple(order[start : start + size])) for start in range(0, len(order), size)]
        run(tile(), batches, folder)
        videos.append(video_of(folder))

    assert len(videos[0]) == len(videos[1]) == 24
    assert all(np.array_equal(one, other) for one, other in zip(*videos, strict=True))


def noisy(random: np.random.Generator, pixel_format: PixelFormat) -> Surface:
    surface = Surface.allocate(pixel_format, size_wh=(160, 120))
    for plane in surface.planes:
        plane[:] = random.integers(0, 256, plane.shape)
    return surface.shared()


def test_more_streams_than_tiles_are_reported(tmp_path: Path) -> None:
    messages: list[Message] = []
    streams = [one_color(name, RED, count=2) for name in ("a", "b", "c")]

    run(tile(columns=1, rows=2), in_turn(*streams), tmp_path, messages=messages)

    assert [message.text for message in messages] == ["1 x 2 tiles have no place for c"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"video": None}, "say where the video goes: video, publish or both"),
        ({"size": [129, 96]}, "multiple of 2"),
        ({"video": {"path": "{stream}.mp4"}}, "video.path: there is one video of all streams"),
        ({"video": {"path": "a.mp4", "streams": ["a"]}}, "video has no streams here: it is an option of tile"),
        ({"video": {"path": "a.mp4", "qualty": 3}}, "quality"),
        ({"columns": 0}, "1"),
    ],
)
def test_options_that_contradict_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Tile(**{**PLAIN, **options})


@pytest.mark.parametrize(
    ("options", "key", "message"),
    [
        ({"columns": 1, "rows": 2}, ("rows",), "3 streams do not fit 1 x 2 tiles: leave out rows"),
        ({"select": "gat"}, ("select",), "no stream is called 'gat'; did you mean 'gate'?"),
        ({"size": [64, 64], "columns": 8}, ("size",), "8 x 1 tiles would be narrower than 16 pixels"),
        ({"video": "wall.avi"}, ("video", "path"), "'wall.avi' must end in .mp4 or .mkv"),
    ],
)
def test_what_does_not_fit_the_streams_is_one_problem_with_its_place(
    options: dict[str, Any], key: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    context = CheckContext(Device(), ("gate", "yard", "dock"), Outputs(tmp_path))

    (problem,) = tile(**options).check(context)

    assert problem.key == key
    assert message.lower() in problem.message.lower()


def test_its_file_is_checked_as_those_of_other_steps_are(tmp_path: Path) -> None:
    config = tmp_path / "wall.yaml"
    config.write_text(
        "sources: {cam: {pattern: bars, size: [64, 48], frames: 2, fps: 25}}\n"
        "pipeline:\n- video: out/wall.mp4\n- tile: {video: out/wall.mp4}\n"
    )

    with pytest.raises(InvalidConfiguration, match=r"pipeline.1.tile.video.path: .*pipeline.0.video writes it too"):
        load_description(config)


def test_it_is_published(tmp_path: Path) -> None:
    operator = built(tile(video=None, publish={"hls": "live/index.m3u8"}), tmp_path, "a", "b")
    for batch in in_turn(one_color("a", RED, count=4), one_color("b", GREEN, count=4)):
        operator.process(batch)
    finish(operator, "a", "b")

    images = decoded(tmp_path / "live" / "index.m3u8")
    assert len(images) == 4
    assert (color_at(images[3], 32, 48), color_at(images[3], 96, 48)) == (RED, GREEN)
    assert operator.totals()["wall"]["images"] == 4
