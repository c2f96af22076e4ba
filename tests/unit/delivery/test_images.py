"""Images that travel with events and tracks."""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline.config.sources import name_problems
from sightline.errors import ConfigurationError
from sightline.graph import CheckContext, Outputs
from sightline.graph.messages import Message, MessageKind
from sightline.media import PixelFormat
from sightline.media.convert import rgb_from_surface
from sightline.testing import MemoryOutbox, make_frames, run_element
from sightline.testing.run import site_for
from sightline_plugins.delivery.images import cut
from tests.unit.delivery.sending import Post, bodies, walk

Rgb = npt.NDArray[np.uint8]


def decoded(jpeg: bytes) -> Rgb:
    image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    return np.asarray(image, np.uint8)


def run(folder: Path, **options: Any) -> tuple[list[dict[str, Any]], list[Message]]:
    """The bodies of what is sent, and the messages; files are below the folder."""
    outbox, messages = MemoryOutbox(), list[Message]()
    run_element(Post(**options), walk(), outputs=folder, outbox=outbox, messages=messages)
    return [json.loads(record.body) for record in outbox.records], messages


def problems(**options: Any) -> list[str]:
    post = Post(**options)
    context = CheckContext(site_for("post", None).device, ("gate", "yard"), Outputs())
    return [problem.message for problem in post.check(context)]


def test_an_event_carries_the_object_it_is_about() -> None:
    crossing, leaving = bodies(walk(), send="events", image="crop")

    image = crossing["image"]
    assert (image["media_type"], image["frame"]) == ("image/jpeg", 3)
    assert image["size"] == [12, 38]
    assert decoded(base64.b64decode(image["data"])).shape == (38, 12, 3)
    assert "image" not in leaving


def test_an_event_carries_the_whole_frame_on_request() -> None:
    crossing, leaving = bodies(walk(), send="events", image="frame", image_size=32)

    assert decoded(base64.b64decode(crossing["image"]["data"])).shape == (24, 32, 3)
    assert "image" in leaving


def test_a_track_carries_the_frame_on_which_it_was_largest_and_surest() -> None:
    batches = walk(4)
    confidence = np.array([0.99], np.float32)
    batches[2] = batches[2].with_objects(
        batches[2].objects.with_columns(confidence=confidence, xyxy=np.array([[0, 0, 30, 40]], np.float32))
    )

    assert bodies(batches, send="tracks", image="crop")[-1]["image"]["frame"] == 2


def test_large_images_are_files_named_by_their_records(tmp_path: Path) -> None:
    path = "events/{stream}/{frame}-{track}.jpg"
    (crossing, _), _ = run(tmp_path, send="events", image="crop", inline_below=0, image_path=path)

    assert crossing["image"]["path"] == "events/gate/000003-1.jpg"
    assert "data" not in crossing["image"]
    assert decoded((tmp_path / crossing["image"]["path"]).read_bytes()).shape == (38, 12, 3)


@pytest.mark.parametrize("name", ["gate and " * 7 + "g", "a" + " ." * 31 + " ", "ü" * 64, "\U00020000" * 64])
def test_files_of_streams_with_long_and_odd_names_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    root, outbox = tmp_path / "a" / "root", MemoryOutbox()
    post = Post(send=["events"], image="crop", inline_below=0, image_path="{stream}/{stream}-{frame}-{track}.jpg")
    messages: list[Message] = []

    assert len(name) == 64
    assert not list(name_problems([name]))
    run_element(post, walk(stream=name), outputs=root, outbox=outbox, messages=messages)

    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert messages == []
    assert root in file.parents
    assert json.loads(outbox.records[0].body)["image"]["path"] == file.relative_to(root).as_posix()


def test_small_images_are_in_the_record_even_with_a_path(tmp_path: Path) -> None:
    (crossing, _), _ = run(tmp_path, send="events", image="crop", image_path="{stream}-{frame}-{track}.jpg")

    assert "data" in crossing["image"]
    assert list(tmp_path.iterdir()) == []


def test_files_are_named_by_their_address_where_one_is_given(tmp_path: Path) -> None:
    options = {"inline_below": 0, "image_path": "a b/{stream}-{frame}-{track}.jpg"}
    (crossing, _), _ = run(tmp_path, send="events", image="crop", image_url="https://media.example/x/", **options)

    assert crossing["image"]["url"] == "https://media.example/x/a%20b/gate-000003-1.jpg"


def test_a_file_of_an_earlier_run_is_not_replaced(tmp_path: Path) -> None:
    options = {"inline_below": 0, "image_path": "{stream}-{frame}-{track}.jpg"}
    run(tmp_path, send="events", image="crop", **options)
    before = (tmp_path / "gate-000003-1.jpg").stat().st_mtime_ns

    (crossing, _), _ = run(tmp_path, send="events", image="crop", **options)
    assert crossing["image"]["path"] == "gate-000003-1-2.jpg"
    assert (tmp_path / "gate-000003-1.jpg").stat().st_mtime_ns == before


def test_without_files_a_large_image_is_made_smaller() -> None:
    large = bodies(walk(), send="events", image="frame")[0]["image"]
    size = len(base64.b64decode(large["data"]))
    small = bodies(walk(), send="events", image="frame", inline_below=size // 2)[0]["image"]

    assert len(base64.b64decode(small["data"])) < size // 2
    assert small["size"] < large["size"]


def test_an_image_that_cannot_be_written_costs_no_record(tmp_path: Path) -> None:
    (tmp_path / "in the way").write_text("")
    options = {"inline_below": 0, "image_path": "in the way/{stream}-{frame}-{track}.jpg"}
    (crossing, leaving), messages = run(tmp_path, send="events", image="crop", **options)

    assert "image" not in crossing
    assert leaving["rule"] == "plaza"
    assert [message.kind for message in messages] == [MessageKind.SINK_DEGRADED]


def test_the_oldest_files_are_removed_beyond_the_limit_those_of_earlier_runs_too(tmp_path: Path) -> None:
    options = {"send": ["events", "tracks"], "image": "frame", "inline_below": 0}
    path = "{kind}/{stream}-{frame}-{track}.jpg"
    run(tmp_path, image_path=path, **options)
    assert len(list(tmp_path.rglob("*.jpg"))) == 4

    run(tmp_path, image_path=path, image_keep={"count": 3}, **options)
    assert len(list(tmp_path.rglob("*.jpg"))) == 3


def test_events_of_one_object_share_its_image(tmp_path: Path) -> None:
    batch = walk()[3]
    twice = batch.with_events([dataclasses.replace(batch.events[0], rule="gate_out")])
    outbox = MemoryOutbox()
    options = {"inline_below": 0, "image_path": "{stream}-{frame}-{track}.jpg"}
    run_element(Post(send="events", image="crop", **options), [twice], outputs=tmp_path, outbox=outbox)

    paths = [json.loads(record.body)["image"]["path"] for record in outbox.records]
    assert paths == ["gate-000003-1.jpg"] * 2
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("pixel_format", PixelFormat)
def test_a_crop_shows_the_pixels_of_the_frame(pixel_format: PixelFormat) -> None:
    surface = make_frames(1, size_wh=(63, 47), pixel_format=pixel_format)[0].surface
    whole = rgb_from_surface(surface)

    part = cut(surface, (11.5, 7.2, 62.8, 30.1))
    step_x, step_y = (1 << shift for shift in pixel_format.chroma_shift)
    left, top, bottom = 11 // step_x * step_x, 7 // step_y * step_y, -(-31 // step_y) * step_y
    assert part is not None
    np.testing.assert_array_equal(rgb_from_surface(part), whole[top:bottom, left:63])


@pytest.mark.parametrize("box", [(70, 0, 80, 9), (-9, -9, -1, -1), (5, 5, 5, 5), (0, 0, float("nan"), 9)])
def test_nothing_is_cut_where_there_is_nothing(box: tuple[float, float, float, float]) -> None:
    assert cut(make_frames(1, pixel_format=PixelFormat.RGB24)[0].surface, box) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"send": "frames", "image": "crop"}, "send one of them"),
        ({"send": "events", "image_path": "{frame}.jpg"}, "give image: crop or image: frame too"),
        ({"send": "events", "image": "crop", "inline_below": 0}, "images have no place"),
        ({"send": "events", "image": "crop", "image_url": "https://a.example"}, "give image_path or image_store too"),
    ],
)
def test_options_of_images_that_do_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Post(**options)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("{stream}-{frame}-{track}.png", "must end in .jpg"),
        ("{stream}-{frame}.jpg", "put {track} into the path"),
        ("{frame}-{track}.jpg", "put {stream} into the path"),
        ("{stream}-{frame}-{track}-{time}.jpg", "{time} stands for nothing here"),
        ("../{stream}-{frame}-{track}.jpg", None),
    ],
)
def test_paths_of_images_are_checked(path: str, message: str | None) -> None:
    found = problems(send="events", image="crop", image_path=path)

    assert [text for text in found if message is None or message not in text] == []
    assert len(found) == (0 if message is None else 1)


def test_an_address_of_images_that_is_none_is_an_error() -> None:
    path = "{stream}-{frame}-{track}.jpg"

    assert problems(send="events", image="crop", image_path=path, image_url="media.example") == [
        "image_url is an address such as https://HOST/PATH"
    ]
