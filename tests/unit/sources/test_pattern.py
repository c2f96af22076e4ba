from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sightline.media import ColorMatrix, ColorRange, PixelFormat
from sightline.testing import run_source
from sightline_plugins.sources.pattern import BARS_YUV, Pattern


def test_bars_have_eight_known_colours() -> None:
    surface = run_source(Pattern(size=(160, 16), frames=1))[0].surface
    samples = [
        tuple(int(plane[0, x >> shift]) for plane, shift in zip(surface.planes, (0, 1, 1), strict=True))
        for x in range(10, 160, 20)
    ]
    assert tuple(samples) == BARS_YUV


def test_a_gradient_goes_from_black_to_white() -> None:
    luma = run_source(Pattern(pattern="gradient", size=(220, 4), frames=1))[0].surface.planes[0]
    assert luma[3].tolist() == list(range(16, 236))


def test_a_solid_image_has_its_colour() -> None:
    surface = run_source(Pattern(pattern="solid", color=(255, 255, 255), size=(8, 8), frames=1))[0].surface
    assert [set(plane.ravel().tolist()) for plane in surface.planes] == [{235}, {128}, {128}]


@pytest.mark.parametrize(("index", "columns"), [(0, range(16)), (3, range(12, 28)), (15, [60, 61, 62, 63, *range(12)])])
def test_the_box_moves_four_pixels_a_frame_and_wraps(index: int, columns: Any) -> None:
    luma = run_source(Pattern(pattern="moving", size=(64, 48), frames=16))[index].surface.planes[0]
    rows, across = np.nonzero(luma == 235)
    assert (set(rows.tolist()), set(across.tolist())) == (set(range(18, 30)), set(columns))


def test_the_counter_shows_the_number_of_the_frame() -> None:
    frames = run_source(Pattern(pattern="counter", size=(160, 8), frames=300))
    bits = frames[299].surface.planes[0][0, 5::10] == 235
    assert int("".join("1" if bit else "0" for bit in bits), 2) == 299


def test_noise_is_the_same_for_the_same_seed_and_differs_between_frames() -> None:
    first, again = (run_source(Pattern(pattern="noise", size=(32, 32), frames=2, seed=7)) for _ in range(2))
    assert np.array_equal(first[1].surface.planes[0], again[1].surface.planes[0])
    assert not np.array_equal(first[0].surface.planes[0], first[1].surface.planes[0])


@pytest.mark.parametrize("pattern", ["bars", "gradient", "solid", "moving", "counter", "noise"])
@pytest.mark.parametrize("size", [(1, 1), (15, 9), (64, 48)])
def test_every_pattern_is_made_in_every_size(pattern: str, size: tuple[int, int]) -> None:
    (frame,) = run_source(Pattern.model_validate({"pattern": pattern, "size": size, "frames": 1}))
    surface = frame.surface
    assert (surface.format, surface.matrix, surface.range) == (PixelFormat.I420, ColorMatrix.BT601, ColorRange.LIMITED)
    assert surface.size_wh == size


def test_timestamps_follow_fps() -> None:
    assert [frame.pts_ns for frame in run_source(Pattern(frames=3, fps=30))] == [0, 33_333_333, 66_666_667]


@pytest.mark.parametrize(
    "described",
    [
        {"pattern": "noise", "size": [32, 16], "frames": 5},
        {"pattern": {"pattern": "noise", "size": [32, 16], "frames": 5}},
        {"pattern": {"pattern": "noise", "size": [32, 16]}, "frames": 5},
    ],
)
def test_the_options_may_stand_below_the_kind_or_beside_it(described: dict[str, Any]) -> None:
    assert Pattern.model_validate(described) == Pattern(pattern="noise", size=(32, 16), frames=5)


def test_pattern_without_options_is_all_defaults() -> None:
    assert Pattern.model_validate({"pattern": None}) == Pattern()


def test_null_frames_make_a_stream_without_end() -> None:
    from sightline.devices import Device
    from sightline.graph import Site
    from sightline.media import Stream

    reader = Pattern(frames=None, size=(8, 8)).build(Site(device=Device()), stream=Stream("cam"))
    frames = reader.frames()
    assert [next(frames).index for _ in range(1000)][-1] == 999
