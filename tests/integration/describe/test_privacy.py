"""`describe` in whole pipelines: which pixels leave the machine, what is refused, and where answers arrive."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline import Pipeline
from sightline.config import InvalidConfiguration
from tests.conftest import missing
from tests.integration.describe.chat_server import ChatServer, Received, running, says

ZONE = {"yard": {"polygon": [[0, 0], [1, 0], [1, 1], [0, 1]]}}
HIDDEN = ["car", "van", "truck", "bus", "person", "bicycle"]
HIDE: dict[str, dict[str, Any]] = {"privacy": {"on": HIDDEN, "detector": "detect-1", "method": "fill"}}

OPTIONS = {"image_size": 4096, "finish": "60s", "per_minute": 1000}


def own_address() -> str:
    """An address of this machine that is not the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))  # nothing is sent
        except OSError:
            missing("this machine has no address but the loopback")
        address: str = probe.getsockname()[0]
    return address


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ChatServer]:
    """A server that is not on the loopback."""
    with running(says("A car <b>enters</b>."), host=own_address()) as server:
        yield server


def run(repository: Path, folder: Path, url: str, *steps: Any, **options: Any) -> dict[str, Any]:
    """Run a clip through these steps, `describe` and `jsonl`; return what `describe` counted."""
    pipeline = Pipeline(
        sources={"gate": repository / "sample_videos" / "street.mp4"},
        steps=[
            {"detect": {"model": str(repository / "models" / "street.onnx")}},
            "track",
            *steps,
            {"zones": ZONE},
            {"describe": {"url": url, "model": "m", "path": "d.db", **OPTIONS, **options}},
            {"jsonl": "{stream}.jsonl"},
        ],
        outputs=folder,
    )
    report = pipeline.run(frames=40)
    counted: dict[str, Any] = dict(report.totals["describe-1"])
    return counted


def of_object(request: Received) -> npt.NDArray[np.uint8]:
    """The pixels of the object that an event is about, in the frame that a server got."""
    image = cv2.imdecode(np.frombuffer(request.images[0], np.uint8), cv2.IMREAD_GRAYSCALE)
    assert image is not None
    left, top, right, bottom = (max(value, 0) for value in request.facts["object"]["box"])
    return np.asarray(image[top + 2 : bottom - 2, left + 2 : right - 2], np.uint8)


def test_images_behind_privacy_leave_the_machine_without_what_it_hides(
    repository: Path, tmp_path: Path, elsewhere: ChatServer
) -> None:
    elsewhere.requests.clear()

    counted = run(repository, tmp_path, elsewhere.url, HIDE)

    assert counted["gate"]["answered"] == len(elsewhere.requests) > 0
    for request in elsewhere.requests:
        assert of_object(request).max() < 40, "black, as far as JPEG lets it be"
        crop = cv2.imdecode(np.frombuffer(request.images[1], np.uint8), cv2.IMREAD_GRAYSCALE)
        assert crop is not None
        assert np.median(crop) < 40


def test_images_that_nothing_hides_stay_and_the_configuration_is_refused(
    repository: Path, tmp_path: Path, elsewhere: ChatServer
) -> None:
    elsewhere.requests.clear()

    with pytest.raises(InvalidConfiguration, match="that no step has redacted: put privacy before it, or write"):
        run(repository, tmp_path, elsewhere.url)

    assert elsewhere.requests == []


def test_a_configuration_may_say_that_unredacted_images_leave(
    repository: Path, tmp_path: Path, elsewhere: ChatServer
) -> None:
    elsewhere.requests.clear()

    run(repository, tmp_path, elsewhere.url, unredacted=True)

    assert max(of_object(request).max() for request in elsewhere.requests) > 100


def test_answers_are_in_what_later_steps_write(repository: Path, tmp_path: Path) -> None:
    with running(says("A car <b>enters</b>.")) as server:
        counted = run(repository, tmp_path, server.url)

    lines = [json.loads(line) for line in (tmp_path / "gate.jsonl").read_text().splitlines()]
    events = [event for line in lines for event in line.get("events", ())]
    described = [event for event in events if event["kind"] == "description"]
    assert len(described) == counted["gate"].get("events", 0)
    assert {event["text"] for event in described} <= {"A car <b>enters</b>."}
    assert counted["gate"]["asked"] == counted["gate"]["answered"] == len(server.requests)


@pytest.mark.parametrize(
    ("before", "is_refused"),
    [
        ([HIDE], False),
        ([{"draw": {}}], True),
        ([{"tee": {"a": [HIDE, {"snapshots": "a{frame}.jpg"}]}}], True),
        ([{"parallel": {"a": [HIDE, {"snapshots": "a{frame}.jpg"}], "b": [{"draw": {}}, {"video": "b.mp4"}]}}], True),
        ([{"privacy": {**HIDE["privacy"], "streams": ["yard"]}}], True),
        ([{"privacy": {**HIDE["privacy"], "streams": ["gate", "y*"]}}], False),
    ],
    ids=["privacy", "draw", "tee", "parallel", "one stream", "all streams"],
)
def test_privacy_has_to_stand_before_it_on_every_stream(
    before: list[Any], *, is_refused: bool, repository: Path, tmp_path: Path
) -> None:
    clip = repository / "sample_videos" / "street.mp4"
    about = {"url": "http://203.0.113.1/v1", "model": "m", "path": "d.db", "about": "segments"}
    steps = [{"detect": {"model": str(repository / "models" / "street.onnx")}}, *before, {"describe": about}]
    pipeline = Pipeline(sources={"gate": clip, "yard": clip}, steps=steps, outputs=tmp_path)

    refusal = ""
    try:
        pipeline.check()
    except InvalidConfiguration as error:
        refusal = str(error)

    assert ("redacted" in refusal) == is_refused, refusal


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        *(("127.0.0.1", True), ("localhost", True), ("LOCALHOST", True), ("[::1]", True), ("127.9.9.9", True)),
        *(("127.0.0.1.example.com", False), ("0.0.0.0", False), ("10.0.0.1", False), ("localhost.example", False)),
        *(("[::ffff:8.8.8.8]", False), ("2130706433", False)),
    ],
)
def test_only_the_loopback_is_this_machine(host: str, *, is_loopback: bool) -> None:
    from sightline_plugins import Describe

    step = Describe(url=f"http://{host}:1/v1", model="m", path="d.db")

    assert step.is_loopback() is is_loopback
