"""`dewarp`: views are where the model of the lens says, on the reference image and in every format."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.config.step_checks import moved_objects
from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph import CheckContext, Outputs
from sightline.media import Batch, ColorRange, Frame, Objects, Origin, PixelFormat, Stream, Surface, Views
from sightline.testing import run_element
from sightline_plugins import Detect, Dewarp, Jsonl
from sightline_plugins.opencv import cv2
from sightline_plugins.warp.lens import Floats, Lens
from sightline_plugins.warp.remap import PlaneMap
from sightline_plugins.warp.views import View

AHEAD = View(fov=85, size=(640, 640))
ASIDE = View(yaw=35, pitch=25, roll=10, fov=80, size=(800, 600))
RADIUS = 2048
"""Of the reference image, whose circle fills it; the cube of which it shows the inside reaches from -1 to 1."""


def dewarped(surface: Surface, **options: Any) -> Frame:
    frame = Frame(Stream("dome"), 0, 0, surface)
    [batch] = run_element(Dewarp(**options), [Batch((frame,))])
    return batch.frames[0]


def views_of(frame: Frame) -> Views:
    assert frame.views is not None
    return frame.views


def room(view: View) -> Floats:
    """The axes of a view (right, down, ahead) in those of the camera, made of its direction and an upright vector."""
    yaw, pitch, roll = (math.radians(angle) for angle in (view.yaw, view.pitch, view.roll))
    ahead = np.array([math.sin(yaw) * math.cos(pitch), -math.sin(pitch), math.cos(yaw) * math.cos(pitch)])
    right = np.cross([0, 1, 0], ahead)
    right /= np.linalg.norm(right)
    down = np.cross(ahead, right)
    return np.array(
        [right * math.cos(roll) + down * math.sin(roll), down * math.cos(roll) - right * math.sin(roll), ahead]
    )


def in_view(points: Floats, view: View) -> Floats:
    """Where a pinhole camera shows points of the room (N, 3)."""
    width, height = view.size_wh
    assert view.fov is not None
    right, down, ahead = room(view) @ points.T
    focal = width / 2 / math.tan(math.radians(view.fov) / 2)
    return np.stack([width / 2 + focal * right / ahead, height / 2 + focal * down / ahead], axis=1)


def in_fisheye(points: Floats) -> Floats:
    """Where the reference image shows points of the room (N, 3): r = R theta / 90 degrees."""
    theta = np.arccos(points[:, 2] / np.linalg.norm(points, axis=1))
    phi = np.arctan2(points[:, 1], points[:, 0])
    radius = RADIUS * theta / (math.pi / 2)
    return np.stack([RADIUS + radius * np.cos(phi), RADIUS + radius * np.sin(phi)], axis=1)


@pytest.fixture(scope="module")
def cube(shared_data: Path) -> Surface:
    image = cv2.imread(str(shared_data / "truth/fisheye/mesh-fisheye.jpg"))
    assert image is not None
    return Surface(PixelFormat.GRAY8, (2 * RADIUS, 2 * RADIUS), (np.asarray(image).max(axis=2),))


@pytest.mark.parametrize("view", [AHEAD, ASIDE], ids=["ahead", "aside"])
def test_every_pixel_is_within_half_a_pixel_of_the_reference_mapping(view: View) -> None:
    size_wh = (2 * RADIUS, 2 * RADIUS)
    width, height = view.size_wh
    focal = width / 2 / math.tan(math.radians(view.fov or 0) / 2)
    x, y = np.meshgrid(np.arange(width) + 0.5 - width / 2, np.arange(height) + 0.5 - height / 2)
    expected = in_fisheye(np.stack([x, y, np.full_like(x, focal)], axis=-1).reshape(-1, 3) @ room(view))

    pixels = Dewarp(lens=Lens(fov=180), views={"one": view}).layout().pixels(Lens(fov=180), size_wh=size_wh)
    taken = PlaneMap.of(pixels, size_wh=size_wh, shift=(0, 0))
    used = taken.whole + 0.5 + np.stack([taken.part % 32, taken.part // 32], axis=-1) / 32

    is_inside = ~np.isnan(pixels[..., 0]).reshape(-1)
    assert is_inside.mean() > 0.9
    assert np.abs(used.reshape(-1, 2)[is_inside] - expected[is_inside]).max() < 0.05


def test_a_calibrated_fisheye_is_straightened_as_opencv_does(cube: Surface) -> None:
    matrix = ((1304.0, 0.0, 2047.5), (0.0, 1304.0, 2047.5), (0.0, 0.0, 1.0))
    k = (0.01, -0.004, 0.001, 0.0)
    lens = Lens(model="kannala_brandt", camera_matrix=matrix, distortion=k, size=cube.size_wh)
    focal = 320 / math.tan(math.radians(42.5))
    pinhole = np.array([[focal, 0, 319.5], [0, focal, 319.5], [0, 0, 1]])
    maps = cv2.fisheye.initUndistortRectifyMap(
        np.array(matrix), np.array(k), room(AHEAD), pinhole, AHEAD.size_wh, cv2.CV_32FC1
    )
    expected = cv2.remap(cube.planes[0], *maps, cv2.INTER_LINEAR)

    shown = dewarped(cube, lens=lens, views={"one": AHEAD}).surface.planes[0]

    assert np.abs(shown.astype(int) - expected).mean() < 0.5


@pytest.mark.parametrize("view", [AHEAD, ASIDE], ids=["ahead", "aside"])
def test_the_lines_of_the_cube_come_out_straight_and_in_place(cube: Surface, view: View) -> None:
    shown = dewarped(cube, lens=Lens(fov=180), views={"one": view}).surface.planes[0]

    steps = np.arange(-6, 7, 2) / 10
    along = np.linspace(-0.9, 0.9, 120)
    ahead = [np.stack([np.full_like(along, at), along, np.ones_like(along)], axis=1) for at in steps]
    ahead += [line[:, [1, 0, 2]] for line in ahead]
    aside = [line[:, [2, 1, 0]] for line in ahead]
    traced = [_traced(shown, in_view_or_nothing(line, view)) for line in [*ahead, *aside]]
    measured = [line for line in traced if line is not None]

    assert len(measured) >= 10
    for expected, found in measured:
        centre = found.mean(axis=0)
        direction = np.linalg.svd(found - centre, full_matrices=False)[2][0]
        off_line = (found - centre) @ np.array([-direction[1], direction[0]])
        assert np.abs(off_line).max() < 1
        assert np.abs((found - expected) @ np.array([-direction[1], direction[0]])).max() < 2  # cells are 0.3% smaller


def in_view_or_nothing(points: Floats, view: View) -> Floats:
    width, height = view.size_wh
    before = points[(room(view) @ points.T)[2] > 0.1]
    places = in_view(before, view)
    inside = ((places > 8) & (places < np.array([width, height]) - 8)).all(axis=1)
    return places[inside]


def _traced(image: npt.NDArray[np.uint8], places: Floats) -> tuple[Floats, Floats] | None:
    """The places at which a line should be, and where its middle is across it; None when too little of it is seen."""
    if len(places) < 30:
        return None
    direction = (places[-1] - places[0]) / np.linalg.norm(places[-1] - places[0])
    across = np.array([-direction[1], direction[0]])
    offsets = np.linspace(-4, 4, 33)
    samples = places[:, None] + offsets[:, None] * across - 0.5
    light = cv2.remap(image.astype(np.float32), samples.astype(np.float32), None, cv2.INTER_LINEAR)
    light = np.maximum(light - 0.5 * light.max(axis=1, keepdims=True), 0)
    crossing = np.abs(light.sum(axis=1) - np.median(light.sum(axis=1))) > 0.3 * np.median(light.sum(axis=1))
    kept = ~crossing  # where another line crosses, all is light
    if kept.sum() < 20:
        return None
    middle = (light[kept] * offsets).sum(axis=1) / light[kept].sum(axis=1)
    return places[kept], places[kept] + middle[:, None] * across


def test_boxes_come_back_to_the_pixels_of_the_fisheye_image(cube: Surface) -> None:
    frame = dewarped(cube, lens=Lens(fov=180), views={"ahead": AHEAD, "aside": ASIDE})
    corners = np.array([(x, y, 1.0) for x in (-0.6, -0.2, 0.3, 0.6) for y in (-0.5, 0.1, 0.6)])
    expected = in_fisheye(corners)
    bright = [cube.planes[0][int(y) - 2 : int(y) + 3, int(x) - 2 : int(x) + 3].max() for x, y in expected]
    assert min(bright) > 100, "the reference image has a crossing of lines at each of these points"

    for number, view in enumerate((AHEAD, ASIDE)):
        places = in_view(corners, view)
        inside = ((places > 2) & (places < np.array(view.size_wh) - 2)).all(axis=1)
        there = places[inside] + views_of(frame).xyxy[number, :2]
        boxes = np.concatenate([there - 0.5, there + 0.5], axis=1).astype(np.float32)
        back = views_of(frame).source_boxes(boxes)

        assert inside.sum() >= 3
        assert views_of(frame).of(boxes).tolist() == [number] * len(boxes)
        np.testing.assert_allclose((back[:, :2] + back[:, 2:]) / 2, expected[inside], atol=2)


def test_a_box_in_the_source_holds_the_polygon_and_one_outside_all_views_is_unknown(cube: Surface) -> None:
    views = views_of(dewarped(cube, lens=Lens(fov=180), views={"left": AHEAD, "right": ASIDE}))
    boxes = np.array([[100, 100, 300, 200], [700, 40, 1000, 400], [641, 5, 650, 20]], np.float32)

    polygons, back = views.source_polygons(boxes), views.source_boxes(boxes)

    assert polygons.shape == (3, 16, 2)
    assert (polygons[:2].min(axis=1) >= back[:2, :2] - 1e-3).all()
    assert (polygons[:2].max(axis=1) <= back[:2, 2:] + 1e-3).all()
    assert np.isnan(polygons[2]).all()
    assert np.isnan(back[2]).all()


def colored(pixel_format: PixelFormat, color_range: ColorRange) -> Surface:
    """An image of 200 x 200 pixels whose left half has another colour than its right; its rows are padded."""
    planes = []
    for shape, (left, right) in zip(
        pixel_format.plane_shapes((200, 200)), ((50, 200), (90, 160), (30, 210)), strict=False
    ):
        padded = np.zeros((shape[0], shape[1] + 24, *shape[2:]), np.uint8)
        padded[:, : shape[1] // 2], padded[:, shape[1] // 2 :] = left, right
        if shape[2:]:
            padded[..., 1] = np.where(padded[..., 0] == left, 30, 210)
        planes.append(padded[:, : shape[1]])
    return Surface(pixel_format, (200, 200), tuple(planes), range=color_range)


@pytest.mark.parametrize("color_range", list(ColorRange))
def test_planes_are_taken_as_they_were_decoded(color_range: ColorRange) -> None:
    options: dict[str, Any] = {"views": {"wide": View(fov=150, size=(64, 48)), "low": View(fov=60, size=(32, 32))}}

    separate = dewarped(colored(PixelFormat.I420, color_range), **options).surface
    together = dewarped(colored(PixelFormat.NV12, color_range), **options).surface

    luma, u, v = separate.planes
    black = 16 if color_range is ColorRange.LIMITED else 0
    assert separate.size_wh == (112, 48)
    assert separate.range is color_range
    np.testing.assert_array_equal(together.planes[0], luma)
    np.testing.assert_array_equal(together.planes[1], np.stack([u, v], axis=-1))
    assert (luma[20:28, 4:28].mean(), luma[20:28, 36:60].mean()) == (50, 200)
    assert (u[10:14, 2:14].mean(), u[10:14, 18:30].mean(), v[12, 4], v[12, 24]) == (90, 160, 30, 210)
    assert (luma[:, 64:80] == black).all()
    assert (luma[34:, 80:] == black).all()
    assert (u[:, 32:40] == 128).all()


def test_beyond_the_lens_all_is_black() -> None:
    shown = dewarped(
        colored(PixelFormat.GRAY8, ColorRange.FULL), lens=Lens(fov=60), views={"one": View(fov=120, size=(64, 64))}
    ).surface.planes[0]

    focal = 32 / math.tan(math.radians(60))
    x, y = np.meshgrid(np.arange(64) - 31.5, np.arange(64) - 31.5)
    seen = np.hypot(x, y) < focal * math.tan(math.radians(30))
    assert (shown[~seen] == 0).mean() > 0.99
    assert (shown[seen] > 0).mean() > 0.95


@pytest.mark.parametrize(
    ("yaw", "brightest"), [(0, "top"), (90, "right"), (180, "bottom"), (270, "left")], ids=lambda value: str(value)
)
def test_a_camera_on_a_ceiling_turns_around_the_room(yaw: float, brightest: str) -> None:
    image = np.zeros((400, 400), np.uint8)
    place = {"top": (200, 40), "right": (360, 200), "bottom": (200, 360), "left": (40, 200)}[brightest]
    cv2.circle(image, place, 20, 255, -1)  # 72 degrees from straight down: 18 below level
    surface = Surface(PixelFormat.GRAY8, (400, 400), (image,))

    view = View(yaw=yaw, pitch=-18, fov=60, size=(64, 64))
    shown = dewarped(surface, mount="ceiling", views={"one": view}).surface.planes[0]
    panorama = View(projection="panorama", yaw=yaw, pitch=-18, size=(128, 64))
    around = dewarped(surface, mount="ceiling", views={"one": panorama}).surface.planes[0]

    for made in (shown, around):
        y, x = np.nonzero(made > 128)
        np.testing.assert_allclose([x.mean() + 0.5, y.mean() + 0.5], np.array(made.shape[::-1]) / 2, atol=1)


def test_records_name_the_view_and_the_place_in_the_source(tmp_path: Path) -> None:
    view = View(size=(64, 48))
    lines = {}
    for source in (None, "box", "polygon"):
        frame = dewarped(colored(PixelFormat.GRAY8, ColorRange.FULL), views={"a": view, "b": view}, source=source)
        found = Objects.from_columns(
            frame=[0, 0],
            xyxy=[[80 + 30, 20, 80 + 34, 28], [65, 0, 75, 10]],
            confidence=[1, 1],
            class_id=[0, 0],
            source=Origin("detect-1", ("person",)),
        )
        path = f"{source}.jsonl"
        run_element(Jsonl(path=path), [Batch((frame,), found)], outputs=tmp_path)
        lines[source] = json.loads((tmp_path / path).read_text())["objects"]

    assert [one.get("view") for one in lines[None]] == ["b", None]
    assert "source_box" not in lines[None][0]
    left, top, right, bottom = lines["box"][0]["source_box"]
    assert left < 100 < right
    assert top < 100 < bottom
    assert "source_box" not in lines["box"][1]
    assert np.shape(lines["polygon"][0]["source_polygon"]) == (16, 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"views": {}}, "views"),
        ({"views": {"a b": View()}}, "views"),
        ({"views": {f"v{number}": View(size=(8192, 64)) for number in range(9)}, "columns": 3}, "more than 16384"),
        ({"views": {"a": View()}, "gap": 7}, "gap"),
    ],
)
def test_a_mistake_is_one_clear_error(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Dewarp(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": (63, 64)}, "must be even"),
        ({"size": (0, 64)}, "size"),
        ({"fov": 180}, "use a panorama"),
        ({"fov": 0}, "fov"),
        ({"projection": "panorama", "roll": 5}, "no roll"),
        ({"pitch": 91}, "pitch"),
    ],
)
def test_a_mistake_in_a_view_is_one_clear_error(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        View(**options)


def test_a_view_that_shows_nothing_is_told_at_its_place() -> None:
    element = Dewarp(lens=Lens(fov=120), views={"ahead": View(), "behind": View(yaw=180, fov=90)})

    [problem] = element.check(CheckContext(Device(), ("dome",), Outputs()))

    assert problem.key == ("views", "behind")
    assert "no farther than 60 degrees" in problem.message


def test_it_has_to_stand_before_the_steps_that_find_objects(repository: Path) -> None:
    dewarp, detect = Dewarp(views={"one": View()}), Detect(model=str(repository / "models/street.onnx"))

    assert list(moved_objects([dewarp, detect], streams=("dome",))) == []
    [(key, message)] = moved_objects([detect, dewarp], streams=("dome",))
    assert key == ("pipeline", 1, "dewarp")
    assert "put it before" in message
