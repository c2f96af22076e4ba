"""Recordings, images and places of events over HTTP: a run that is over, and what is kept of it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

from sightline import Pipeline
from sightline.api import EventDetails, RecordingInfo
from sightline.client import Client
from sightline.server import listen
from tests.integration.server.conftest import TOKEN, Answer, ask, wait_for

API = "/api/v1/pipelines/street"
LINE = [[0.18, 0.62], [0.82, 0.58]]
REPLAY = {"replay": {"path": "sample_videos/street.mot.txt", "ids": True, "label": "car"}}
STEPS: list[Any] = [
    REPLAY,
    {"lines": {"road": {"from": LINE[0], "to": LINE[1]}}},
    {"record": {"path": "clips/{stream}-{time}.mp4", "before": "1s", "after": "1s", "on": "lines.road"}},
]


@dataclass(frozen=True, slots=True)
class Site:
    """A server whose pipeline has run, and where it wrote."""

    port: int
    folder: Path

    def ask(self, path: str, **more: str) -> Answer:
        return ask(self.port, f"{API}/{path}", token=TOKEN, **more)

    def events(self) -> list[Any]:
        found = self.ask("history/records?type=event&limit=1000")
        assert found.status == 200, found.text
        return list(found.json()["records"])

    def details(self, event: str) -> EventDetails:
        return EventDetails.model_validate(self.ask(f"events/{event}").json())

    def recordings(self) -> list[Any]:
        return list(self.ask("recordings").json())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A clip that was read to its end."""
    folder = tmp_path_factory.mktemp("street")
    sources = {"street": "sample_videos/street.mp4"}
    pipeline = Pipeline(name="street", sources=sources, steps=STEPS, outputs=folder)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener:
        pipeline.run()
        site = Site(listener.port, folder)
        wait_for(lambda: any(site.details(one["id"]).image_seconds == 0 for one in site.events()))
        wait_for(lambda: not any(one["recording"] for one in site.recordings()))
        yield site


def pixels(jpeg_or_frame: bytes | av.VideoFrame) -> npt.NDArray[np.uint8]:
    frame = jpeg_or_frame
    if isinstance(frame, bytes):
        with av.open(io.BytesIO(frame), "r") as container:
            frame = next(container.decode(video=0))
    return np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)


def test_what_was_recorded_is_listed_with_its_cause(site: Site) -> None:
    recordings = [RecordingInfo.model_validate(one) for one in site.recordings()]

    files = {one.name: one for one in (site.folder / "clips").iterdir()}
    assert {one.name for one in recordings} == set(files)
    for one in recordings:
        assert (one.stream, one.element, one.causes) == ("street", "record-1", ["lines.road"])
        assert one.size_bytes == files[one.name].stat().st_size
        with av.open(files[one.name]) as container:
            assert one.images == container.streams.video[0].frames
        assert not any(str(site.folder) in str(value) for value in one.model_dump().values())


def test_an_event_knows_its_place_and_the_recording_that_shows_it(site: Site) -> None:
    for event in site.events():
        details = site.details(event["id"])
        scene, (clip, *_) = details.scene, details.clips

        assert details.record.id == event["id"]
        assert scene is not None
        assert scene.box is not None
        x1, _, x2, y2 = scene.box
        assert scene.path[-1] == pytest.approx((0, (x1 + x2) / 2, y2), abs=1e-3)
        assert [one[0] for one in scene.path] == sorted((one[0] for one in scene.path), reverse=True)
        assert (scene.outline, [list(one) for one in scene.points]) == ("line", LINE)
        assert 0 <= clip.offset_seconds <= clip.recording.seconds


def test_the_path_leads_from_one_side_of_the_line_to_the_other(site: Site) -> None:
    (x1, y1), (x2, y2) = LINE

    def side(x: float, y: float) -> bool:
        return (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1) > 0

    for event in site.events():
        scene = site.details(event["id"]).scene
        assert scene is not None
        *before, (_, x, y) = scene.path
        if before:
            assert side(x, y) != side(*before[-1][1:])
        assert side(x, y) is (event["event"]["direction"] == "in")


def test_the_image_of_an_event_is_the_frame_that_the_recording_has_there(site: Site) -> None:
    seen = 0
    for details in [site.details(event["id"]) for event in site.events()]:
        if details.image_seconds != 0 or not details.crop:
            continue
        image = site.ask(f"events/{details.record.id}/thumbnail.jpg")
        crop = site.ask(f"events/{details.record.id}/thumbnail.jpg?crop=true")
        assert image.headers["content-type"] == crop.headers["content-type"] == "image/jpeg"
        clip = details.clips[0]
        with av.open(site.folder / "clips" / clip.recording.name) as container:
            frames = {round(frame.time or 0, 3): frame for frame in container.decode(video=0)}
        shown = pixels(image.body).astype(int)
        near = frames[min(frames, key=lambda at: abs(at - clip.offset_seconds))]
        others = [frame for at, frame in frames.items() if abs(at - clip.offset_seconds) > 0.5]
        assert np.abs(shown - pixels(near)).mean() < 6
        assert min(np.abs(shown - pixels(one)).mean() for one in others[::10]) > 6
        assert max(pixels(crop.body).shape[:2]) <= 256
        seen += 1
    assert seen > 0


def test_any_part_of_a_file_can_be_asked_for(site: Site) -> None:
    one = site.recordings()[0]
    whole = (site.folder / "clips" / one["name"]).read_bytes()

    file = f"recordings/{one['id']}/file"
    assert site.ask(file).body == whole
    assert site.ask(file).headers["content-type"] == "video/mp4"
    part = site.ask(file, Range="bytes=100-199")
    assert (part.status, part.body) == (206, whole[100:200])
    assert part.headers["content-range"] == f"bytes 100-199/{len(whole)}"
    assert site.ask(file, Range="bytes=-50").body == whole[-50:]
    assert site.ask(file, Range=f"bytes={len(whole)}-").status == 416


def test_the_client_finds_events_images_and_recordings(site: Site) -> None:
    with Client(f"http://127.0.0.1:{site.port}", token=TOKEN) as client:
        street = client.pipeline()
        events = list(street.search("car", attributes={"direction": "in"}, rules=["road"], streams=["st*"]))
        recordings = street.recordings(streams=["street"])

        expected = [one["id"] for one in site.events() if one["event"]["direction"] == "in"]
        assert [one.id for one in events] == expected[::-1]
        assert [one.id for one in street.search(types=["event"], most=2)] == [
            one["id"] for one in site.events()[:-3:-1]
        ]
        assert list(street.search("zeppelin")) == []
        assert street.event(expected[0]).clips[0].recording in recordings
        assert street.recording(recordings[0].id) == (site.folder / "clips" / recordings[0].name).read_bytes()
        with_image = next(one.id for one in street.search(types=["event"]) if street.event(one.id).crop)
        assert street.thumbnail(with_image, crop=True)[:2] == street.thumbnail(with_image)[:2] == b"\xff\xd8"
        assert street.thumbnail(with_image, crop=True) != street.thumbnail(with_image)


def test_recordings_are_found_by_stream_and_time(site: Site) -> None:
    (first, *_) = sorted(site.recordings(), key=lambda one: one["start"])

    assert site.ask("recordings?stream=none").json() == []
    assert site.ask("recordings?stream=st*&limit=1").json() == [site.recordings()[0]]
    assert first in site.ask(f"recordings?to={first['end']}").json()
    assert site.ask("recordings?from=2001-01-01&to=2001-01-02").json() == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("recordings/4711", 404),
        ("recordings/4711/file", 404),
        ("recordings/0/file", 422),
        ("recordings/..%2F..%2Fetc%2Fpasswd/file", 404),
        ("recordings?from=yesterday", 422),
        ("events/1-1", 404),
        ("events/abc", 422),
        ("events/1-1/thumbnail.jpg", 404),
        ("history/records?attribute=direction", 422),
        ("history/records/counts?from=10&to=5", 422),
        ("history/records/counts?from=0&points=1000", 422),
    ],
)
def test_what_is_not_there_is_refused(site: Site, path: str, status: int) -> None:
    answer = site.ask(path)

    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_recording_whose_file_was_removed_or_replaced_by_a_link_is_forgotten(site: Site, tmp_path: Path) -> None:
    secret = tmp_path / "secret.mp4"
    secret.write_text("secret")
    one = site.recordings()[-1]
    path = site.folder / "clips" / one["name"]
    kept = path.read_bytes()
    path.unlink()
    path.symlink_to(secret)

    assert site.ask(f"recordings/{one['id']}/file").status == 404
    assert one["id"] not in [other["id"] for other in site.recordings()]

    path.unlink()
    path.write_bytes(kept)


def test_what_privacy_hides_is_in_no_image(tmp_path: Path) -> None:
    steps: list[Any] = [
        REPLAY,
        {"lines": {"road": {"from": LINE[0], "to": LINE[1]}}},
        {"privacy": {"on": "car", "detector": "replay-1", "method": "fill"}},
    ]
    sources = {"street": "sample_videos/street.mp4"}
    pipeline = Pipeline(name="street", sources=sources, steps=steps, outputs=tmp_path)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener:
        pipeline.run(frames=150)
        site = Site(listener.port, tmp_path)
        event = wait_for(lambda: next((one for one in site.events() if site.details(one["id"]).crop), None))
        crop = pixels(site.ask(f"events/{event['id']}/thumbnail.jpg?crop=true").body)
        whole = pixels(site.ask(f"events/{event['id']}/thumbnail.jpg").body)

    height, width = crop.shape[:2]
    middle = crop[height * 3 // 8 : height * 5 // 8, width * 3 // 8 : width * 5 // 8]
    assert middle.max() < 40
    assert whole.mean() > 60
