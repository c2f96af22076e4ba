"""Models that look at several images at once, from pixels to what they answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from sightline.devices import Device
from sightline.devices.cuda.device import CudaDevice
from sightline.graph.site import Site
from sightline.media import Batch, Frame, Objects, Origin, PixelFormat, Stream
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.tensors import Tensors
from tests.fakes import fake_cuda_device
from tests.unit.infer.stacked import write_stacked

SIZE = 32
Means = dict[tuple[str, int], list[float]]
"""By stream and frame: what the model returned for the first channel of its images."""


def frame(number: int, *, stream: str = "cam", level: int | None = None) -> Frame:
    """An image of one color: red is ten times the frame's number, green and blue are 1 and 2 more."""
    red = number * 10 if level is None else level
    rgb = np.full((SIZE, SIZE, 3), (red, red + 1, red + 2), np.uint8)
    return Frame(Stream(stream), number, number * 40_000_000, surface_from_rgb(rgb, pixel_format=PixelFormat.RGB24))


def means(element: Tensors, frames: list[Frame], *, size: int = 1, gpu: CudaDevice | None = None) -> Means:
    found: Means = {}
    for batch in run_element(element, make_batches(frames, size=size), gpu=gpu):
        for tensor in batch.tensors:
            seen = batch.frames[tensor.frame]
            found[seen.stream.name, seen.index] = tensor.values[:, 0].round().tolist()
    return found


def tensors(model: Path, **options: Any) -> Tensors:
    return Tensors.model_validate({"model": model, "scale": 1, **options})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_stacked(tmp_path / "stacked.onnx")


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("order", ["cthw", "tchw", "thwc"])
def test_the_model_sees_the_newest_images_oldest_first(tmp_path: Path, order: str, engine: str) -> None:
    element = tensors(write_stacked(tmp_path / "stacked.onnx", order=order), engine=engine)

    assert means(element, [frame(number) for number in range(6)]) == {
        ("cam", 3): [0, 10, 20, 30],
        ("cam", 4): [10, 20, 30, 40],
        ("cam", 5): [20, 30, 40, 50],
    }


def test_images_that_a_gpu_prepares_are_stacked_alike_and_go_with_the_stack(model: Path) -> None:
    frames = [frame(number, stream=name) for number in range(6) for name in ("one", "other")]

    with fake_cuda_device() as gpu:
        on_gpu = means(tensors(model), frames, size=4, gpu=gpu)
        held = gpu.pinned.lent

    assert on_gpu == means(tensors(model), frames, size=4)
    assert len(on_gpu) == 6
    assert held == 0


@pytest.mark.parametrize("element_type", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_levels_are_normalized_channel_by_channel(tmp_path: Path, element_type: int) -> None:
    path = write_stacked(tmp_path / "stacked.onnx", element=element_type)
    element = Tensors.model_validate({"model": path, "mean": [10, 20, 30], "scale": [1, 2, 4], "convert": "image"})

    (batch,) = run_element(element, [Batch(tuple(frame(number, level=100) for number in range(4)))])

    (tensor,) = batch.tensors
    assert tensor.values == pytest.approx(np.tile([90, 81 / 2, 72 / 4], (4, 1)), abs=1.5)


def test_stride_leaves_frames_out(model: Path) -> None:
    assert means(tensors(model, stride=2), [frame(number) for number in range(9)]) == {
        ("cam", 6): [0, 20, 40, 60],
        ("cam", 8): [20, 40, 60, 80],
    }


def test_every_sets_after_how_many_frames_the_model_runs_again(model: Path) -> None:
    found = means(tensors(model, every=5), [frame(number) for number in range(15)])

    assert sorted(index for _, index in found) == [3, 8, 13]


def test_a_model_of_any_number_of_images_takes_the_given_number(tmp_path: Path) -> None:
    path = write_stacked(tmp_path / "stacked.onnx", frames="frames", batch="batch")

    assert means(tensors(path, frames=2), [frame(number) for number in range(3)]) == {
        ("cam", 1): [0, 10],
        ("cam", 2): [10, 20],
    }


def test_each_stream_has_its_own_images(model: Path) -> None:
    frames = [frame(number, stream=name, level=number + 100 * (name == "b")) for number in range(4) for name in "ab"]

    assert means(tensors(model), frames, size=3) == {("a", 3): [0, 1, 2, 3], ("b", 3): [100, 101, 102, 103]}


def test_each_region_has_its_own_images(model: Path) -> None:
    element = tensors(model, regions=[[0, 0, 0.5, 1], [0.5, 0, 1, 1]], fit="stretch")

    (batch,) = run_element(element, [Batch(tuple(frame(number) for number in range(4)))])

    assert [tensor.values[:, 0].round().tolist() for tensor in batch.tensors] == [[0, 10, 20, 30]] * 2


def test_answers_do_not_depend_on_the_batch_size(model: Path) -> None:
    frames = [frame(number) for number in range(11)]

    found = [means(tensors(model, stride=2, every=3), frames, size=size) for size in (1, 4, 11)]

    assert found[0] == found[1] == found[2]


def test_a_stream_that_begins_again_begins_with_no_images(model: Path) -> None:
    operator = tensors(model).build(Site(device=Device(), element_id="tensors"))
    batch = Batch(tuple(frame(number) for number in range(3)))

    operator.process(batch)
    operator.end_stream(batch.frames[0].stream)
    pending = operator.process(batch)
    result = pending if isinstance(pending, Batch) else pending.result()
    operator.close()

    assert not result.tensors


def tracked(number: int, tracks: dict[int, int]) -> Batch:
    """A frame with objects: by track, the level of the image around it."""
    rgb = np.zeros((SIZE, SIZE * 4, 3), np.uint8)
    boxes = {track: (SIZE * track, 0, SIZE * track + SIZE, SIZE) for track in tracks}
    for track, (left, _, right, _) in boxes.items():
        rgb[:, max(left, 0) : max(right, 0)] = tracks[track]
    objects = Objects.from_columns(
        frame=[0] * len(tracks),
        xyxy=np.array(list(boxes.values()), np.float32).reshape(-1, 4),
        confidence=[0.9] * len(tracks),
        class_id=[0] * len(tracks),
        source=Origin("detect", ("person",)),
        track_id=list(tracks),
    )
    return Batch(
        (Frame(Stream("cam"), number, number * 40_000_000, surface_from_rgb(rgb, pixel_format=PixelFormat.RGB24)),),
        objects=objects,
    )


def levels_of(batches: list[Batch]) -> list[list[list[float] | None]]:
    """For each frame and object, the first channel of what the model said; None where it said nothing."""
    column = "_tensors.means"
    return [
        [
            None if np.isnan(values).any() else values[:, 0].round().tolist()
            for values in batch.objects.extra.get(column, np.full((len(batch.objects), 1, 1), np.nan))
        ]
        for batch in batches
    ]


def test_each_track_has_its_own_images(model: Path) -> None:
    batches = [tracked(number, {0: number, 2: 100 + number}) for number in range(4)]

    assert levels_of(run_element(tensors(model, on="person"), batches))[3] == [[0, 1, 2, 3], [100, 101, 102, 103]]


def test_the_result_of_a_track_stays_with_it_until_the_model_runs_again(model: Path) -> None:
    batches = [tracked(number, {0: number}) for number in range(8)]

    found = levels_of(run_element(tensors(model, on="person", every=3), batches))

    assert found == [[None]] * 3 + [[[0, 1, 2, 3]]] * 3 + [[[3, 4, 5, 6]]] * 2


def test_a_track_that_was_away_for_longer_than_a_stack_begins_anew(model: Path) -> None:
    away = [tracked(number, {0: number} if number < 3 or number > 8 else {}) for number in range(13)]

    found = levels_of(run_element(tensors(model, on="person"), away))

    assert found[9:] == [[None], [None], [None], [[9, 10, 11, 12]]]


def test_objects_without_a_track_are_left_out(model: Path) -> None:
    batches = [tracked(number, {-1: 5}) for number in range(6)]

    assert levels_of(run_element(tensors(model, on="person"), batches)) == [[None]] * 6
