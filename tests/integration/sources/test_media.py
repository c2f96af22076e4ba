"""Reading clips: passes, start and end, rates, rotation, several streams."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.integration.sources.clips import number_of, write_clip
from tests.open_files import needs_descriptors, nothing_left_open

from sightline.devices import Device
from sightline.errors import StreamUnreadable
from sightline.graph import Site
from sightline.media import Frame, Stream
from sightline.testing import run_source
from sightline_plugins.sources.file.element import Media

MILLISECOND = 1_000_000


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_clip(tmp_path_factory.mktemp("clips") / "fifty.mp4"))


def numbers(frames: list[Frame]) -> list[int]:
    """Which images of the clip these frames show (the encoder may be one level off)."""
    return [round(number_of(int(frame.surface.planes[0].mean()))) for frame in frames]


def milliseconds(frames: list[Frame]) -> list[int]:
    return [frame.pts_ns // MILLISECOND for frame in frames]


def test_every_frame_comes_once_in_order_with_its_time(clip: str) -> None:
    frames = run_source(Media(uri=clip))
    assert [frame.index for frame in frames] == list(range(50))
    assert milliseconds(frames) == list(range(0, 2000, 40))
    assert np.abs(np.subtract(numbers(frames), range(50))).max() <= 1


@pytest.mark.parametrize("start", ["40ms", "390ms", "400ms", "401ms", "1.5s", "1.96s"])
def test_start_is_exact_wherever_key_frames_are(clip: str, start: str) -> None:
    frames = run_source(Media.model_validate({"uri": clip, "start": start}))
    first = Media.model_validate({"uri": clip, "start": start}).start
    whole = run_source(Media(uri=clip))
    expected = [frame for frame in whole if frame.pts_ns >= first]
    assert [frame.pts_ns for frame in frames] == [frame.pts_ns for frame in expected]
    for frame, same in zip(frames, expected, strict=True):
        assert all(map(np.array_equal, frame.surface.planes, same.surface.planes))


def test_duration_counts_from_start(clip: str) -> None:
    frames = run_source(Media.model_validate({"uri": clip, "start": "400ms", "duration": "200ms"}))
    assert milliseconds(frames) == [400, 440, 480, 520, 560]


def test_start_behind_the_end_is_an_error_that_says_so(clip: str) -> None:
    with pytest.raises(StreamUnreadable, match="ends before start"):
        run_source(Media.model_validate({"uri": clip, "start": "1m"}))


def test_start_counts_from_the_first_frame(shared_data: Path) -> None:
    uri = str(shared_data / "videos/codec/test_non_zero_start.mp4")
    whole = run_source(Media(uri=uri))
    late = run_source(Media.model_validate({"uri": uri, "start": "100ms"}))
    assert [frame.pts_ns for frame in late] == [frame.pts_ns for frame in whole[3:]]


def test_a_loop_goes_on_with_times_and_numbers(clip: str) -> None:
    frames = run_source(Media(uri=clip, loop=3))
    assert [frame.index for frame in frames] == list(range(150))
    assert milliseconds(frames) == list(range(0, 6000, 40))


def test_a_loop_of_a_part_repeats_that_part(clip: str) -> None:
    frames = run_source(Media.model_validate({"uri": clip, "start": "80ms", "duration": "80ms", "loop": 2}))
    assert milliseconds(frames) == [80, 120, 160, 200]
    assert np.abs(np.subtract(numbers(frames), [2, 3, 2, 3])).max() <= 1


def test_loop_true_does_not_end(clip: str) -> None:
    reader = Media(uri=clip, loop=True).build(Site(device=Device()), stream=Stream("cam"))
    frames = reader.frames()
    assert [next(frames).index for _ in range(175)][-1] == 174
    assert reader.frame_count is None
    reader.close()


def test_max_fps_leaves_frames_out_evenly_and_counts_them(clip: str) -> None:
    reader = Media(uri=clip, max_fps=5).build(Site(device=Device()), stream=Stream("cam"))
    frames = list(reader.frames())
    assert milliseconds(frames) == list(range(0, 2000, 200))
    assert [frame.index for frame in frames] == list(range(10))
    assert reader.skipped_frames == 40
    assert reader.frame_count == 10


def test_a_variable_frame_rate_keeps_its_times(tmp_path: Path) -> None:
    stamps = [0, 40, 45, 300, 310, 900, 1000, 1001]
    uri = str(write_clip(tmp_path / "uneven.mkv", count=8, stamps_ms=stamps))
    assert milliseconds(run_source(Media(uri=uri))) == stamps


def test_the_reader_says_how_many_frames_to_expect(clip: str) -> None:
    reader = Media.model_validate({"uri": clip, "start": "1s", "loop": 2}).build(
        Site(device=Device()), stream=Stream("cam")
    )
    next(reader.frames())
    assert reader.frame_count == 50
    reader.close()


def test_closing_in_the_middle_and_again_is_harmless(clip: str) -> None:
    reader = Media(uri=clip).build(Site(device=Device()), stream=Stream("cam"))
    frame = next(reader.frames())
    reader.close()
    reader.close()
    assert number_of(int(frame.surface.planes[0][0, 0])) <= 1


def test_a_second_video_stream_can_be_chosen(shared_data: Path) -> None:
    uri = str(shared_data / "videos/codec/nasa_13013.mp4")
    sizes = [run_source(Media(uri=uri, stream_index=number))[0].size_wh for number in (0, 1)]
    assert sizes == [(320, 180), (480, 270)]


def test_a_video_stream_that_is_not_there_is_an_error(clip: str) -> None:
    with pytest.raises(StreamUnreadable, match="1 video stream"):
        run_source(Media(uri=clip, stream_index=1))


@pytest.mark.parametrize(
    ("name", "quarter_turns"), [("video_0.mov", 0), ("video_90.mov", -1), ("video_180.mov", 2), ("video_270.mov", 1)]
)
def test_rotation_metadata_turns_the_image(shared_data: Path, name: str, quarter_turns: int) -> None:
    uri = str(shared_data / "videos/codec" / name)
    for turned, stored in zip(run_source(Media(uri=uri)), run_source(Media(uri=uri, rotate=0)), strict=True):
        for plane, original in zip(turned.surface.planes, stored.surface.planes, strict=True):
            assert np.array_equal(plane, np.rot90(original, quarter_turns))


def test_rotation_metadata_is_followed_from_the_middle_too(shared_data: Path) -> None:
    uri = str(shared_data / "videos/codec/nasa_13013_rotated.mp4")
    frames = run_source(Media.model_validate({"uri": uri, "start": "200ms"}))
    assert frames[0].size_wh == (270, 480)


def test_rotation_can_be_asked_for(clip: str) -> None:
    assert run_source(Media(uri=clip, rotate=90))[0].size_wh == (96, 160)


@pytest.mark.parametrize("rotate", [0, 90, 180])
def test_turned_images_are_told_from_those_that_were_encoded(clip: str, rotate: int) -> None:
    frames = run_source(Media.model_validate({"uri": clip, "rotate": rotate}))

    assert {bool(frame.altered) for frame in frames} == {rotate != 0}


def test_several_threads_decode_the_same_images(clip: str) -> None:
    one, four = (run_source(Media(uri=clip, threads=threads)) for threads in (1, 4))
    assert [frame.pts_ns for frame in one] == [frame.pts_ns for frame in four]
    assert all(np.array_equal(a.surface.planes[0], b.surface.planes[0]) for a, b in zip(one, four, strict=True))


def test_a_timestamp_that_steps_back_is_repaired_and_reported(shared_data: Path) -> None:
    messages: list[object] = []
    frames = run_source(Media(uri=str(shared_data / "videos/hostile/no_timescale.mp4")), messages=messages)  # type: ignore[arg-type]
    assert all(later.pts_ns > earlier.pts_ns for earlier, later in pairwise(frames))
    assert sum("has a timestamp that does not rise" in str(message) for message in messages) == 1


def test_repaired_timestamps_are_counted_over_all_passes(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.h264", count=6)
    reader = Media(uri=str(clip), loop=2).build(Site(device=Device()), stream=Stream("cam"))
    frames = list(reader.frames())
    assert milliseconds(frames) == list(range(0, 480, 40))
    assert reader.repaired_timestamps == 12
    reader.close()


def test_timestamps_that_are_right_count_as_repaired_nowhere(clip: str) -> None:
    reader = Media(uri=clip, loop=2).build(Site(device=Device()), stream=Stream("cam"))
    assert len(list(reader.frames())) == 100
    assert reader.repaired_timestamps == 0
    reader.close()


@needs_descriptors
def test_no_file_is_left_open(clip: str) -> None:
    with nothing_left_open():
        for _ in range(5):
            run_source(Media.model_validate({"uri": clip, "start": "500ms", "loop": 2}))
