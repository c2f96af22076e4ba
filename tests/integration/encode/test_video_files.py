"""What `video` writes comes back from the file: times, frames, colours, sizes."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from tests.integration.encode.clips import Readback, frames_at, image, psnr, read_back

from sightline.graph.messages import Message
from sightline.media import ColorMatrix, ColorRange, Frame, PixelFormat, Stream, Surface
from sightline.media.convert import rgb_from_surface, surface_from_rgb
from sightline.testing import make_batches, make_frames, run_element
from sightline_plugins.sinks.video import Video

MS = 1_000_000
CONSTANT = [index * 40 * MS for index in range(60)]
VIDEO_RATE = [round(index * 1001 / 24000 * 1e9) for index in range(60)]
VARIABLE = [0, 33 * MS, 50 * MS, 51 * MS, 400 * MS, 3_000 * MS, 3_010 * MS, 9_999 * MS + 123_456]
LATE_START = [5_000 * MS + time for time in VIDEO_RATE]
VERY_LATE_START = [36_000_000 * MS + time for time in CONSTANT]


def noise(chance: np.random.Generator) -> Surface:
    """An image like no other, for which encoders like to change the order."""
    rgb = chance.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    return surface_from_rgb(rgb, pixel_format=PixelFormat.I420).shared()


def write(frames: list[Frame], folder: Path, video: Video, messages: list[Message] | None = None) -> None:
    run_element(video, make_batches(frames, size=4), outputs=folder, messages=messages)


def written(frames: list[Frame], folder: Path, video: Video) -> Readback:
    write(frames, folder, video)
    return read_back(folder / video.path)


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
@pytest.mark.parametrize(
    "times_ns",
    [CONSTANT, VIDEO_RATE, VARIABLE, LATE_START, VERY_LATE_START, [0], [7_000 * MS]],
    ids=["constant", "video", "variable", "late", "very-late", "one-frame", "one-late-frame"],
)
def test_every_frame_comes_back_at_its_time(tmp_path: Path, times_ns: list[int], suffix: str) -> None:
    result = written(frames_at(times_ns), tmp_path, Video(path=f"clip.{suffix}"))

    tick_ns = float(1_000_000_000 * result.time_base)
    assert len(result.ticks) == len(times_ns)
    assert max(abs(got - want) for got, want in zip(result.times_ns(), times_ns, strict=True)) <= tick_ns


@pytest.mark.parametrize("count", [11, 12, 13])
def test_the_last_image_comes_back_when_it_was_written_before_others(tmp_path: Path, count: int) -> None:
    times_ns = [index * 100 * MS for index in range(count)]
    chance = np.random.default_rng(1)
    frames = [Frame(Stream("cam"), index, time_ns, noise(chance)) for index, time_ns in enumerate(times_ns)]

    assert written(frames, tmp_path, Video(path="clip.mp4")).times_ns() == times_ns


def test_mp4_counts_90000_ticks_a_second(tmp_path: Path) -> None:
    assert written(frames_at(CONSTANT), tmp_path, Video(path="clip.mp4")).time_base.denominator == 90_000


def test_a_stream_that_starts_before_zero_is_moved_to_zero_with_a_warning(tmp_path: Path) -> None:
    messages: list[Message] = []
    write(frames_at([time - 500 * MS for time in CONSTANT]), tmp_path, Video(path="clip.mp4"), messages)

    assert read_back(tmp_path / "clip.mp4").times_ns() == CONSTANT
    assert [message.stream for message in messages] == ["cam"]


def test_a_time_that_does_not_grow_costs_no_frame(tmp_path: Path) -> None:
    messages: list[Message] = []
    write(frames_at([0, 40 * MS, 40 * MS, 30 * MS, 80 * MS]), tmp_path, Video(path="clip.mp4"), messages)

    assert read_back(tmp_path / "clip.mp4").ticks == (0, 3600, 3601, 3602, 7200)
    assert len(messages) == 1


@pytest.mark.parametrize("codec", ["h264", "h265"])
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_the_codec_asked_for_is_written_in_either_container(tmp_path: Path, codec: str, suffix: str) -> None:
    result = written(frames_at(CONSTANT[:10]), tmp_path, Video.model_validate({"path": f"a.{suffix}", "codec": codec}))

    assert result.codec == {"h264": "h264", "h265": "hevc"}[codec]
    assert len(result.ticks) == 10


def test_h265_keeps_times_and_key_frames(tmp_path: Path) -> None:
    result = written(
        frames_at(LATE_START), tmp_path, Video.model_validate({"path": "a.mp4", "codec": "h265", "gop": "1s"})
    )

    assert len(result.ticks) == len(LATE_START)
    assert result.ticks[0] == 5 * 90_000
    assert len(result.key_ticks) == 3


@pytest.mark.parametrize("frames", [1, 2, 3, 4])
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_h265_writes_clips_of_a_few_frames(tmp_path: Path, frames: int, suffix: str) -> None:
    video = Video.model_validate({"path": f"a.{suffix}", "codec": "h265"})

    assert written(frames_at(CONSTANT[:frames]), tmp_path, video).times_ns() == CONSTANT[:frames]


def test_key_frames_come_once_a_gop_at_any_frame_rate(tmp_path: Path) -> None:
    times = [*range(0, 1_000 * MS, 100 * MS), *range(1_000 * MS, 3_000 * MS, 20 * MS)]
    result = written(frames_at(times), tmp_path, Video.model_validate({"path": "a.mp4", "gop": "500ms"}))

    assert [tick / 90_000 for tick in result.key_ticks] == [0, 0.5, 1, 1.5, 2, 2.5]


@pytest.mark.parametrize("pixel_format", [item for item in PixelFormat if item is not PixelFormat.GRAY8])
@pytest.mark.parametrize("color_range", list(ColorRange))
def test_images_of_every_format_look_as_they_did(
    tmp_path: Path, pixel_format: PixelFormat, color_range: ColorRange
) -> None:
    frames = frames_at(CONSTANT[:5], pixel_format=pixel_format, color_range=color_range, matrix=ColorMatrix.BT709)
    result = written(frames, tmp_path, Video(path="a.mp4", quality=10))

    assert min(psnr(got, image(index, size_wh=(96, 64))) for index, got in enumerate(result.rgb)) > 29


@pytest.mark.parametrize("color_range", list(ColorRange))
def test_grey_stays_grey_at_its_level(tmp_path: Path, color_range: ColorRange) -> None:
    frames = frames_at([0], pixel_format=PixelFormat.GRAY8, color_range=color_range)
    got = written(frames, tmp_path, Video(path="a.mp4", quality=5)).rgb[0]

    assert psnr(got, rgb_from_surface(frames[0].surface)) > 40


@pytest.mark.parametrize("codec", ["h264", "h265"])
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
@pytest.mark.parametrize(
    ("matrix", "color_range", "tags"),
    [
        (ColorMatrix.BT601, ColorRange.LIMITED, (6, 1)),
        (ColorMatrix.BT601, ColorRange.FULL, (6, 2)),
        (ColorMatrix.BT709, ColorRange.LIMITED, (1, 1)),
        (ColorMatrix.BT2020, ColorRange.FULL, (9, 2)),
    ],
)
def test_matrix_and_range_are_tagged(
    tmp_path: Path, codec: str, suffix: str, matrix: ColorMatrix, color_range: ColorRange, tags: tuple[int, int]
) -> None:
    frames = frames_at([0, 40 * MS], matrix=matrix, color_range=color_range)
    result = written(frames, tmp_path, Video.model_validate({"path": f"a.{suffix}", "codec": codec}))

    assert (result.matrix, result.range) == tags


@pytest.mark.parametrize("pixel_format", list(PixelFormat))
@pytest.mark.parametrize("size_wh", [(97, 65), (96, 65), (97, 64)])
def test_odd_sizes_grow_by_a_pixel_that_repeats_the_last(
    tmp_path: Path, size_wh: tuple[int, int], pixel_format: PixelFormat
) -> None:
    frames = frames_at(CONSTANT[:3], size_wh=size_wh, pixel_format=pixel_format)
    last = written(frames, tmp_path, Video(path="a.mp4", quality=10)).rgb[-1]

    assert last.shape == (size_wh[1] + size_wh[1] % 2, size_wh[0] + size_wh[0] % 2, 3)
    if pixel_format is not PixelFormat.GRAY8:
        assert psnr(last[: size_wh[1], : size_wh[0]], image(2, size_wh=size_wh)) > 28


def test_two_streams_go_to_two_files(tmp_path: Path) -> None:
    pairs = zip(frames_at(CONSTANT, stream="a"), frames_at(LATE_START, stream="b", size_wh=(64, 48)), strict=True)
    write([frame for pair in pairs for frame in pair], tmp_path, Video(path="out/{stream}.mp4"))

    assert len(read_back(tmp_path / "out/a.mp4").ticks) == 60
    assert read_back(tmp_path / "out/b.mp4").rgb[0].shape == (48, 64, 3)


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_camera_that_was_away_for_a_day_goes_on_in_a_second_file(tmp_path: Path, suffix: str) -> None:
    messages: list[Message] = []
    a_day_later = [90_000_000 * MS + time for time in CONSTANT[30:]]
    write(frames_at([*CONSTANT[:30], *a_day_later]), tmp_path, Video(path=f"clip.{suffix}"), messages)

    assert read_back(tmp_path / f"clip.{suffix}").times_ns() == CONSTANT[:30]
    assert read_back(tmp_path / f"clip-2.{suffix}").times_ns() == a_day_later
    assert [message.text.split(":")[0] for message in messages] == ["the last frame is more than 6 hours away"]


def test_a_camera_that_was_away_for_some_hours_stays_in_its_file(tmp_path: Path) -> None:
    times_ns = [*CONSTANT[:10], *(6 * 3_600_000 * MS + time for time in CONSTANT[:10])]

    assert written(frames_at(times_ns), tmp_path, Video(path="clip.mp4")).times_ns() == times_ns


def test_a_change_of_size_begins_a_second_file_with_a_warning(tmp_path: Path) -> None:
    messages: list[Message] = []
    frames = [*frames_at(CONSTANT[:30]), *frames_at(CONSTANT[30:], size_wh=(128, 96))]
    write(frames, tmp_path, Video(path="clip.mp4"), messages)

    assert read_back(tmp_path / "clip.mp4").times_ns() == CONSTANT[:30]
    assert read_back(tmp_path / "clip-2.mp4").times_ns() == CONSTANT[30:]
    assert [message.text.split(":")[0] for message in messages] == [
        "the image changed from 96x64 bt601 limited to 128x96 bt601 limited"
    ]


def test_a_change_of_format_alone_stays_in_the_file(tmp_path: Path) -> None:
    frames = [
        *frames_at(CONSTANT[:30], pixel_format=PixelFormat.NV12),
        *frames_at(CONSTANT[30:], pixel_format=PixelFormat.I422),
    ]

    assert len(written(frames, tmp_path, Video(path="clip.mp4")).ticks) == 60


def test_a_bit_rate_bounds_the_size(tmp_path: Path) -> None:
    for bitrate in ("100k", "400k"):
        write(
            make_frames(50, size_wh=(160, 120)),
            tmp_path,
            Video.model_validate({"path": bitrate + ".mp4", "bitrate": bitrate}),
        )

    small, large = ((tmp_path / f"{bitrate}.mp4").stat().st_size for bitrate in ("100k", "400k"))
    assert small < 0.5 * large


def test_no_frame_means_no_file(tmp_path: Path) -> None:
    write([], tmp_path, Video(path="clip.mp4"))

    assert not list(tmp_path.iterdir())


def test_a_closed_mp4_is_an_ordinary_seekable_one(tmp_path: Path) -> None:
    write(frames_at(CONSTANT), tmp_path, Video.model_validate({"path": "clip.mp4", "gop": "500ms"}))

    with av.open(str(tmp_path / "clip.mp4")) as container:
        stream = container.streams.video[0]
        container.seek(2 * 90_000, stream=stream)
        first = next(container.decode(stream))
        assert stream.frames == 60
        assert first.time == 2.0


def test_the_shared_surface_is_not_written_to(tmp_path: Path) -> None:
    frames = frames_at(CONSTANT[:3], size_wh=(97, 65))
    before = [plane.copy() for plane in frames[0].surface.planes]
    write(frames, tmp_path, Video(path="clip.mp4"))

    assert all((old == new).all() for old, new in zip(before, frames[0].surface.planes, strict=True))
