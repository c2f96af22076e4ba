"""The frame inspector over HTTP: what each step made of a frame, and images that show nothing that is hidden."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest

from sightline import Pipeline
from sightline.server.inspections import Inspections
from tests.integration.server.api.conftest import Steered
from tests.integration.server.conftest import endless

STREET = str(Path(__file__).resolve().parents[4] / "models" / "street.onnx")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """A red image, all of which is hidden because the model does not search every frame."""
    detect = {"model": STREET, "precision": "fp32", "every": 10_000}
    hide = {"on": "person", "detector": "detect-1", "method": "fill"}
    steps: list[str | dict[str, object]] = [{"detect": detect}, "track", {"privacy": hide}, "draw"]
    sources = {"gate": endless(pattern="solid", color=[200, 40, 40]), "yard": endless()}
    return Pipeline(name="street", sources=sources, steps=steps, outputs=tmp_path / "out", keep_running=True)


def test_a_frame_is_inspected(steered: Steered) -> None:
    answer = steered.operator.ask("streams/gate/inspect", "POST")

    assert answer.status == 200
    inspection = answer.json()
    assert (inspection["stream"], inspection["size"]) == ("gate", [64, 48])
    assert [(step["id"], step["state"]) for step in inspection["steps"]] == [
        ("detect-1", "done"), ("track-1", "done"), ("privacy-1", "done"), ("draw-1", "done"),
    ]  # fmt: skip
    assert steered.operator.ask(f"inspections/{inspection['id']}").json() == inspection


def test_the_image_shows_nothing_that_a_later_step_hides(steered: Steered) -> None:
    for _ in range(2):  # the first frame is searched
        inspection = steered.operator.ask("streams/gate/inspect", "POST").json()

    image = steered.operator.ask(f"inspections/{inspection['id']}/{inspection['image']}")

    assert image.headers["content-type"] == "image/png"
    assert image.body.startswith(PNG)
    assert struct.unpack(">II", image.body[16:24]) == (64, 48)
    pixels = cv2.imdecode(np.frombuffer(image.body, np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None
    assert pixels.max() < 20  # no red is left


def test_what_is_not_there_is_told(steered: Steered) -> None:
    assert steered.operator.ask("streams/nowhere/inspect", "POST").status == 404
    assert steered.operator.ask("inspections/unknown").status == 404
    assert steered.operator.ask("inspections/unknown/frame.png").status == 404
    inspection = steered.operator.ask("streams/gate/inspect", "POST").json()
    assert steered.operator.ask(f"inspections/{inspection['id']}/input-7.png").status == 404


def test_a_stream_that_rests_gives_no_frame_and_others_wait_their_turn(steered: Steered) -> None:
    steered.pipeline.pause("gate").wait()
    statuses: list[int] = []

    def inspect() -> None:
        while (status := steered.operator.ask("streams/gate/inspect", "POST").status) == 409:
            pass  # a frame of the other stream is inspected
        statuses.append(status)

    waiting = threading.Thread(target=inspect)
    waiting.start()
    while steered.operator.ask("streams/yard/inspect", "POST").status != 409:
        assert waiting.is_alive()
    waiting.join()

    assert statuses == [503]


def test_inspections_are_forgotten(steered: Steered, monkeypatch: pytest.MonkeyPatch) -> None:
    inspections = Inspections()
    made = [inspections.add(steered.pipeline.inspect("gate")).id for _ in range(5)]
    assert [inspections.get(one) is not None for one in made] == [False, True, True, True, True]

    monkeypatch.setattr("sightline.server.inspections._KEPT_SECONDS", -1.0)

    assert inspections.get(made[-1]) is None
