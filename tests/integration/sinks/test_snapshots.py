from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.sinks.images import batches

from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph import CheckContext, Message, MessageKind, Outputs
from sightline.graph.outputs import output_error
from sightline.media import Batch, Event
from sightline.testing import run_element
from sightline_plugins.sinks.snapshots import Snapshots


def saved(folder: Path, given: Sequence[Batch], messages: list[Message] | None = None, **options: Any) -> list[str]:
    run_element(Snapshots.model_validate(options), given, outputs=folder, messages=messages)
    return sorted(path.name for path in folder.iterdir())


def image(path: Path) -> npt.NDArray[np.uint8]:
    bgr = cv2.imread(str(path))
    assert bgr is not None
    return np.ascontiguousarray(bgr[..., ::-1], np.uint8)


def crossing(rule: str = "gate", track_id: int = 5) -> Event:
    return Event("line", rule, 0, {"direction": "in", "track_id": track_id})


def with_event_on(given: list[Batch], index: int, *events: Event) -> list[Batch]:
    return [batch.with_events(events if number == index else ()) for number, batch in enumerate(given)]


def test_a_frame_with_an_event_is_saved(tmp_path: Path) -> None:
    given = with_event_on(batches(3), 1, crossing(), crossing("other"))
    assert saved(tmp_path, given, path="{stream}-{frame}.jpg") == ["cam-000001.jpg"]


def test_an_image_is_the_frame(tmp_path: Path) -> None:
    given = with_event_on(batches(1), 0, crossing())
    saved(tmp_path, given, path="{frame}.png")
    np.testing.assert_array_equal(image(tmp_path / "000000.png"), next(iter(given[0])).rgb())


def test_only_events_of_the_rules_asked_for_count(tmp_path: Path) -> None:
    given = with_event_on(batches(2), 1, crossing("other"))
    assert saved(tmp_path, given, path="{frame}.jpg", rules=["gate"]) == []


def test_each_track_is_saved_once(tmp_path: Path) -> None:
    given = batches(3, track_ids=(5, -1)) + batches(2, track_ids=(5, 6))[1:]
    assert saved(tmp_path, given, path="{track}.jpg", on="track") == ["5.jpg", "6.jpg"]


def seen(*scales: float, confidence: float = 0.8) -> list[Batch]:
    """One track, on each frame of a box so many times as large as ten pixels."""
    given = batches(len(scales))
    return [
        batch.with_objects(
            batch.objects.with_columns(
                xyxy=np.array([[2, 2, 2 + 10 * scale, 12]], np.float32),
                confidence=np.array([confidence], np.float32),
            )
        )
        for batch, scale in zip(given, scales, strict=True)
    ]


def test_a_track_is_saved_again_after_a_time(tmp_path: Path) -> None:
    names = saved(tmp_path, batches(7), path="{frame}-{track}.jpg", on="track", again="120ms")
    assert names == ["000000-5.jpg", "000003-5.jpg", "000006-5.jpg"]


def test_a_track_is_saved_again_when_it_is_seen_better(tmp_path: Path) -> None:
    given = seen(1, 1.2, 1.6, 1.7, 1, 2.5)
    names = saved(tmp_path, given, path="{frame}-{track}.jpg", on="track", better=1.5)
    assert names == ["000000-5.jpg", "000002-5.jpg", "000005-5.jpg"]


def test_more_surely_is_better_too(tmp_path: Path) -> None:
    given = seen(1, confidence=0.4) + seen(1, 1, confidence=0.8)[1:]
    assert saved(tmp_path, given, path="{frame}-{track}.jpg", on="track", better=1.5) == [
        "000000-5.jpg",
        "000001-5.jpg",
    ]


def test_the_better_image_takes_the_place_of_the_other(tmp_path: Path) -> None:
    options: dict[str, Any] = {"path": "{track}.png", "on": "track", "crop": True, "margin": 0, "better": 1.5}
    assert saved(tmp_path, seen(1, 3, 1), **options) == ["5.png"]
    assert image(tmp_path / "5.png").shape[:2] == (10, 30)


def test_events_of_a_track_are_not_saved_again_within_a_time(tmp_path: Path) -> None:
    given = [batch.with_events([crossing()]) for batch in batches(7)]
    assert saved(tmp_path, given, path="{frame}.jpg", again="120ms") == ["000000.jpg", "000003.jpg", "000006.jpg"]


def test_the_newest_images_are_kept(tmp_path: Path) -> None:
    names = saved(tmp_path, batches(6), path="{frame}.jpg", every="1ms", keep={"count": 2})
    assert names == ["000004.jpg", "000005.jpg"]


def test_images_take_no_more_room_than_they_may(tmp_path: Path) -> None:
    saved(tmp_path, batches(20), path="{frame}.png", every="1ms", keep={"size": "40kB"})
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert 0 < sum(sizes) <= 40_000
    assert len(sizes) < 20


def test_a_full_disk_stops_nothing_and_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Outputs, path: Path) -> None:
        raise output_error(path, OSError(errno.ENOSPC, "full"), doing="write")

    monkeypatch.setattr(Outputs, "open_lines", full)
    messages: list[Message] = []
    assert saved(tmp_path, batches(6), messages, path="{frame}.jpg", every="1ms") == []
    (message,) = messages
    assert message.kind is MessageKind.SINK_DEGRADED
    assert "the disk is full" in message.text


def test_frames_are_saved_at_regular_times(tmp_path: Path) -> None:
    assert saved(tmp_path, batches(6), path="{frame}.jpg", every="80ms") == [
        "000000.jpg",
        "000002.jpg",
        "000004.jpg",
    ]


def test_a_crop_is_the_object_with_its_margin(tmp_path: Path) -> None:
    saved(tmp_path, batches(1), path="{track}.png", on="track", crop=True, margin=0.5)
    assert image(tmp_path / "5.png").shape[:2] == (48, 12)


def test_the_limit_is_kept_with_one_warning(tmp_path: Path) -> None:
    messages: list[Message] = []
    names = saved(tmp_path, batches(6), messages, path="{frame}.jpg", every="1ms", limit=2)
    assert (names, [message.text for message in messages]) == (
        ["000000.jpg", "000001.jpg"],
        ["2 images are saved, which is the limit"],
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"path": "{frame}.gif"}, "must end in .jpg, .jpeg, .png"),
        ({"path": "one.jpg"}, "put {frame} or {track} into the path"),
        ({"path": "{frame}.jpg", "crop": True}, "put {track} into the path"),
        ({"path": "{frame}-{track}.jpg"}, "{track} has a meaning with crop or on: track only"),
    ],
)
def test_a_path_that_can_not_work_is_a_problem(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    context = CheckContext(device=Device(), streams=("cam",), outputs=Outputs(tmp_path))
    found = [problem.message for problem in Snapshots.model_validate(options).check(context)]
    assert [expected in message for message in found] == [True]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"on": "event", "every": "5s"}, "give on or every, not both"),
        ({"every": "5s", "crop": True}, "crop needs an object"),
        ({"on": "track", "rules": ["gate"]}, "rules have a meaning with on: event only"),
        ({"every": "5s", "better": 2}, "again and better are about tracks"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        Snapshots(path="{frame}.jpg", **options)
