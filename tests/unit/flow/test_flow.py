"""`flow`: what moves, where to and how fast, in pixels of the source per second."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import Arrows, Batch, Frame, Objects, Origin, PixelFormat, Stream, Surface
from sightline.testing import make_batches, run_element
from sightline_plugins import Draw, Flow, Jsonl
from sightline_plugins.opencv import cv2

SIZE_WH = (640, 360)
RNG = np.random.default_rng(7)
Image = npt.NDArray[np.uint8]
Way = Sequence[tuple[float, float]]


def texture() -> npt.NDArray[np.float32]:
    """A wide image with detail of many sizes."""
    noise = RNG.normal(size=(560, 840)).astype(np.float32)
    mixed = sum(cv2.GaussianBlur(noise, (0, 0), sigma) * sigma for sigma in (1.5, 4, 12))
    return np.asarray((mixed - mixed.min()) / (mixed.max() - mixed.min()) * 220 + 16, np.float32)


TEXTURE = texture()


def shifted(dx: float, dy: float, *, size_wh: tuple[int, int] = SIZE_WH) -> Image:
    """The part of the texture that a camera sees when everything has moved by (dx, dy) pixels."""
    matrix = np.array([[1, 0, dx - 100], [0, 1, dy - 100]], np.float32)
    return (
        np.asarray(np.rint(cv2.warpAffine(TEXTURE, matrix, size_wh, flags=cv2.INTER_CUBIC)), np.float32)
        .clip(0, 255)
        .astype(np.uint8)
    )


def frames(images: Sequence[Image], *, stream: Stream | None = None, times: Sequence[float]) -> list[Frame]:
    """Grey frames with these images at these seconds."""
    source = Stream("cam") if stream is None else stream
    return [
        Frame(source, index, round(at * 1e9), Surface(PixelFormat.GRAY8, image.shape[::-1], (image,)))
        for index, (image, at) in enumerate(zip(images, times, strict=True))
    ]


def found(element: Flow, clip: Sequence[Frame], *, size: int = 1) -> list[npt.NDArray[Any] | None]:
    """The tensor of each frame."""
    name = "vectors" if element.mode == "dense" else "points"
    views = (view for batch in run_element(element, make_batches(clip, size=size)) for view in batch)
    return [view.tensors.get(f"flow.{name}") for view in views]


def velocities(element: Flow, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """All vectors (N, 2), without the cells at the edge, where something new comes into the frame."""
    return values[1:-1, 1:-1].reshape(-1, 2) if element.mode == "dense" else values[:, 2:]


BOTH = pytest.mark.parametrize("element", [Flow(), Flow(mode="sparse")], ids=["dense", "sparse"])


@BOTH
@pytest.mark.parametrize("per_second", [5, 12.5, 30])
def test_known_motion_is_found_in_pixels_per_second_at_any_rate(element: Flow, per_second: float) -> None:
    velocity = np.array([42.0, -24.0])
    times = [0, 1 / per_second]

    values = found(element, frames([shifted(*(velocity * at)) for at in times], times=times))[1]

    assert values is not None
    error = np.linalg.norm(velocities(element, values) - velocity, axis=1) / per_second
    assert np.median(error) < 0.2, "pixels of the source between two frames"
    assert np.percentile(error, 90) < 0.5


@BOTH
def test_a_still_scene_has_no_flow(element: Flow) -> None:
    values = found(element, frames([shifted(0, 0)] * 2, times=[0, 0.04]))[1]

    assert values is not None
    assert np.abs(velocities(element, values)).max() == 0


def test_shapes_are_those_that_the_documentation_states() -> None:
    clip = frames([shifted(0, 0), shifted(2, 0)], times=[0, 0.04])
    dense, points = found(Flow(cell=50), clip)[1], found(Flow(mode="sparse", most=40), clip)[1]

    assert dense is not None
    assert points is not None
    assert dense.shape == (7, 13, 2)
    assert points.shape[1:] == (4,)
    assert {dense.dtype, points.dtype} == {np.dtype(np.float32)}
    assert 20 < len(points) <= 40
    assert (points[:, :2] >= -5).all()
    assert (points[:, :2] <= np.array(SIZE_WH) + 5).all()


def test_flow_begins_anew_after_a_gap_a_jump_back_another_size_and_the_end_of_the_stream() -> None:
    still, small = shifted(0, 0), shifted(0, 0, size_wh=(320, 180))
    images = [still, still, still, still, still, small, small]
    clip = frames(images, times=[0, 0.1, 1.2, 1.3, 0.5, 0.6, 0.7])

    assert [values is not None for values in found(Flow(), clip)] == [False, True, False, True, False, False, True]
    assert [values is None for values in found(Flow(), clip[:1] + clip[:1])] == [True, True], "the same time"


def test_streams_do_not_mix_and_batches_make_no_difference() -> None:
    one = frames([shifted(4 * step, 0) for step in range(4)], stream=Stream("one"), times=[0, 0.1, 0.2, 0.3])
    other = frames([shifted(0, -3 * step) for step in range(4)], stream=Stream("two"), times=[0, 0.1, 0.2, 0.3])
    mixed = [frame for pair in zip(one, other, strict=True) for frame in pair]

    alone = [found(Flow(cell=64), clip) for clip in (one, other)]
    together = found(Flow(cell=64), mixed, size=3)

    for clip, expected in zip((together[::2], together[1::2]), alone, strict=True):
        for values, wanted in zip(clip, expected, strict=True):
            np.testing.assert_array_equal(values, wanted)


@BOTH
def test_objects_get_the_median_motion_inside_their_boxes(element: Flow) -> None:
    still, moved = shifted(0, 0), shifted(0, 0)
    still[100:220, 200:360] = shifted(-60, 40)[100:220, 200:360]
    moved[100:220, 206:366] = shifted(-60, 40)[100:220, 200:360]
    clip = frames([still, moved], times=[0, 0.1])
    boxes = [[206, 100, 366, 220], [420, 200, 600, 340], [-90, -90, -10, -10]]
    objects = Objects.from_columns(
        frame=[0, 1, 1, 1],
        xyxy=[boxes[0], *boxes],
        confidence=[1] * 4,
        class_id=[0] * 4,
        source=Origin("test", ("car",)),
    )
    with_objects = element.model_copy(update={"objects": True})

    [batch] = run_element(with_objects, [Batch(tuple(clip), objects)])

    x, y = batch.objects.attributes["flow_x"], batch.objects.attributes["flow_y"]
    assert np.isnan(x[[0, 3]]).all()
    assert np.isnan(y[[0, 3]]).all()
    assert x[1] == pytest.approx(60, abs=2)
    assert y[1] == pytest.approx(0, abs=2)
    assert x[2] == pytest.approx(0, abs=0.5)
    assert y[2] == pytest.approx(0, abs=0.5)


def test_what_has_no_texture_gives_no_points_and_no_mistake() -> None:
    flat = np.full((360, 640), 90, np.uint8)

    values = found(Flow(mode="sparse"), frames([flat, flat], times=[0, 0.04]))[1]

    assert values is not None
    assert values.shape == (0, 4)


@pytest.mark.parametrize("size_wh", [(2, 2), (40, 12), (1000, 6)])
@BOTH
def test_images_of_any_shape_are_looked_at(element: Flow, size_wh: tuple[int, int]) -> None:
    image = shifted(0, 0, size_wh=size_wh)

    values = found(element, frames([image, image], times=[0, 0.04]))[1]

    assert values is not None
    assert np.isfinite(values).all()


def test_arrows_point_to_where_things_will_be_and_draw_draws_them() -> None:
    clip = frames([shifted(0, 0), shifted(10, 0)], times=[0, 0.1])

    [batch] = run_element(Flow(arrows=True), [Batch(tuple(clip))])
    [drawn] = run_element(Draw(), [batch])
    [plain] = run_element(Draw(graphics=False), [batch])

    none, (arrows,) = batch.columns.graphics
    assert none == ()
    assert isinstance(arrows, Arrows)
    ways = arrows.ends[:, 2:] - arrows.ends[:, :2]
    assert np.median(ways, axis=0) == pytest.approx([20, 0], abs=0.5), "100 pixels a second, for a fifth of a second"
    assert 100 < len(ways) <= 400
    changed = drawn.frames[1].surface.planes[0] != clip[1].surface.planes[0]
    assert 0.02 < changed.mean() < 0.3
    assert drawn.frames[0].surface is batch.frames[0].surface
    assert plain.frames[1].surface is batch.frames[1].surface


def test_json_lines_hold_the_vectors_if_asked(tmp_path: Path) -> None:
    clip = frames([shifted(0, 0), shifted(3, 0)], times=[0, 0.1])
    [batch] = run_element(Flow(cell=160), [Batch(tuple(clip))])
    values = dataclasses.replace(batch.tensors[0], values=np.array([[1.23456, np.nan]], np.float32))

    for name, tensors in (("with", True), ("without", False)):
        made = dataclasses.replace(batch, tensors=(values,))
        run_element(Jsonl(path=f"{name}.jsonl", tensors=tensors), [made], outputs=tmp_path)

    first, second = (json.loads(line) for line in (tmp_path / "with.jsonl").read_text().splitlines())
    assert "tensors" not in first
    assert second["tensors"] == {"flow.vectors": [[1.235, None]]}
    assert list(second)[-1] == "tensors"
    assert "tensors" not in (tmp_path / "without.jsonl").read_text()
