"""`camera_health` as a step: which frames it looks at, and what it adds to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError

from sightline.devices.cuda.device import CudaDevice
from sightline.graph import KeepsState
from sightline.media import Batch, Event, Frame, Part, PixelFormat, Stream, Surface
from sightline.media.frame import NANOSECONDS
from sightline.testing import make_batches, make_frames, run_element
from sightline.testing.run import site_for
from sightline_plugins import CameraHealth
from sightline_plugins.camera_health.operator import CameraHealthOperator
from sightline_plugins.opencv import cv2
from tests.fakes.cuda_driver import FakeCudaDriver

SIZE_WH = (640, 360)
QUICK = {"learn": "4s", "after": "2s", "clear_after": "1s", "frozen_after": "3s"}


def texture(seed: int = 1) -> npt.NDArray[np.uint8]:
    """A scene with detail of several sizes, as large as frames."""
    random = np.random.default_rng(seed)
    light: npt.NDArray[np.float32] = np.zeros(SIZE_WH[::-1], np.float32)
    for size in (4, 12, 40):
        light += cv2.GaussianBlur(random.normal(0, 1, light.shape).astype(np.float32), (0, 0), size / 2) * size
    return np.asarray(np.clip(128 + 40 * light / light.std(), 0, 255), np.uint8)


def frames(count: int, *, covered: range = range(0), name: str = "cam", fps: int = 10) -> list[Frame]:
    """A camera with a noisy sensor, before which something grey stands in some of its frames."""
    random, scene, made = np.random.default_rng(2), texture(), []
    for index in range(count):
        seen = np.full_like(scene, 90) if index in covered else scene
        luma = np.clip(seen + random.normal(0, 4, seen.shape), 0, 255).astype(np.uint8)
        chroma = np.full((SIZE_WH[1] // 2, SIZE_WH[0] // 2, 2), 128, np.uint8)
        surface = Surface(PixelFormat.NV12, SIZE_WH, (luma, chroma))
        made.append(Frame(Stream(name), index, index * NANOSECONDS // fps, surface))
    return made


def events(batches: Sequence[Batch]) -> list[Event]:
    return [event for batch in batches for event in batch.events]


def health(**options: object) -> CameraHealth:
    return CameraHealth.model_validate({**QUICK, **options})


def operator_of(element: CameraHealth) -> CameraHealthOperator:
    operator = element.build(site_for("health", None))
    assert isinstance(operator, CameraHealthOperator)
    return operator


@pytest.fixture(scope="module")
def covered() -> list[Frame]:
    """Frames of 13 seconds; something stands before the camera from the seventh to the tenth."""
    return frames(130, covered=range(60, 100))


def test_events_begin_and_end_with_what_was_measured(covered: list[Frame]) -> None:
    began, ended = events(run_element(health(severity="high"), make_batches(covered, size=7)))

    assert [began.part, ended.part] == [Part.BEGIN, Part.END]
    assert (began.kind, began.rule, began.data["state"]) == ("camera_covered", "covered", "began")
    assert (ended.kind, ended.rule, ended.data["state"]) == ("camera_covered", "covered", "ended")
    assert began.data["seconds"] == pytest.approx(2.5, abs=0.6)
    assert ended.data["seconds"] == pytest.approx(6, abs=0.6)
    assert began.data["brightness"] == pytest.approx(90, abs=1)
    assert float(began.data["match"]) < 0.1 < 0.9 < float(ended.data["match"])
    assert began.data["severity"] == "high"


def test_the_report_holds_how_often_how_long_and_the_last_measures(covered: list[Frame]) -> None:
    operator = operator_of(health())
    for batch in make_batches(covered[:90]):
        operator.process(batch)
    lasting = operator.totals()["cam"]
    operator.close()

    assert lasting == operator.totals()["cam"]
    assert lasting["covered"]["events"] == 1
    assert lasting["covered"]["seconds"] == pytest.approx(3, abs=0.6)
    assert lasting["frozen"] == {"events": 0, "seconds": 0.0}
    assert lasting["image"]["brightness"] == pytest.approx(90, abs=1)


def test_frames_are_looked_at_twice_a_second_and_carry_the_measures(covered: list[Frame]) -> None:
    looked = [
        batch.frames[tensor.frame].index
        for batch in run_element(health(), make_batches(covered[:60], size=9))
        for tensor in batch.tensors
    ]
    assert looked == list(range(0, 60, 5))


def test_each_camera_is_watched_by_itself(covered: list[Frame]) -> None:
    well = frames(130, name="yard")
    mixed = [Batch(pair) for pair in zip(covered, well, strict=True)]
    found = {batch.frames[event.frame].stream.name for batch in run_element(health(), mixed) for event in batch.events}
    assert found == {"cam"}


def test_damaged_frames_are_not_looked_at(covered: list[Frame]) -> None:
    damaged = [dataclasses.replace(frame, damaged=True) if 60 <= frame.index < 100 else frame for frame in covered]
    assert events(run_element(health(), make_batches(damaged))) == []


def test_counts_and_the_view_go_on_in_another_process(covered: list[Frame]) -> None:
    first, second = operator_of(health()), operator_of(health())
    for batch in make_batches(covered[:85]):
        first.process(batch)
    saved = first.save(Stream("cam"))
    assert saved is not None
    assert isinstance(second, KeepsState)
    second.restore("cam", saved)
    again = [dataclasses.replace(frame, pts_ns=frame.pts_ns - covered[85].pts_ns) for frame in covered[85:]]

    found = events([second.process(batch) for batch in make_batches(again)])

    assert [(event.rule, event.part) for event in found] == [("covered", Part.END)]
    assert second.totals()["cam"]["covered"]["events"] == 1


@pytest.mark.parametrize("size_wh", [(64, 48), (321, 181), (1280, 720), (240, 1000)])
@pytest.mark.parametrize("pixel_format", [PixelFormat.I420, PixelFormat.NV12, PixelFormat.GRAY8, PixelFormat.RGB24])
def test_frames_of_every_kind_and_size_are_measured(pixel_format: PixelFormat, size_wh: tuple[int, int]) -> None:
    made = make_frames(2, size_wh=size_wh, pixel_format=pixel_format)
    (first, _) = run_element(health(), make_batches(made))
    brightness = float(made[0].surface.planes[0].mean())
    assert float(first.tensors[0].values[0]) == pytest.approx(brightness, abs=1)


def test_what_is_looked_for_is_named_once_and_at_all() -> None:
    for checks in ([], ["covered", "covered"], ["stolen"]):
        with pytest.raises(ValidationError, match="checks"):
            health(checks=checks)
    assert health(checks=["frozen"]).found_rules() == {"frozen"}


def test_frames_on_a_gpu_are_made_small_there_and_give_the_same(
    covered: list[Frame], gpu: CudaDevice, driver: FakeCudaDriver
) -> None:
    some = covered[:100:5]
    there = [dataclasses.replace(frame, surface=frame.surface.to_device(gpu)) for frame in some]

    on_gpu = run_element(health(), make_batches(there, size=4), gpu=gpu)

    on_cpu = run_element(health(), make_batches(some, size=4))
    assert [event.to_json() for event in events(on_gpu)] == [event.to_json() for event in events(on_cpu)] != []
    assert set(driver.launched) == {"reduce_luma"}
    assert gpu.transfers.counts.device_to_host_bytes == len(some) * 320 * 180
