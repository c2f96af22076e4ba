"""The order of calls on the GPU when everything has warmed up: the host waits for results, and for nothing else."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline.media import Batch
from sightline_plugins import Detect
from sightline_plugins.infer.cuda_predictor import CudaPredictor
from sightline_plugins.infer.detections import DetectionPostprocessor
from sightline_plugins.nms.cuda import DETECTION
from tests.fakes import FakeCudaDriver
from tests.fakes.tensorrt import FakeTensorRt
from tests.unit.infer.cuda.predictors import CELLS, batch_of, by_tensorrt, cells_of, expected, inputs_of

WAITING = ("synchronize", "synchronize_event")
GIVING = ("allocate", "allocate_pinned", "free", "free_pinned", "create_stream", "create_event")
METADATA_BYTES = 4 * 300 * DETECTION.itemsize + 256
"""What comes down for a batch of four: counts, and room for 300 boxes of each image."""


@pytest.fixture
def stream(gpu: CudaDevice) -> CudaStream:
    return gpu.stream("model")


@pytest.fixture
def batches(gpu: CudaDevice) -> list[Batch]:
    return [batch_of(CELLS[first : first + 4], gpu=gpu) for first in range(0, 32, 4)]


@pytest.fixture
def warm(
    gpu: CudaDevice, stream: CudaStream, tensorrt: FakeTensorRt, detect: Detect, batches: list[Batch]
) -> Iterator[tuple[CudaPredictor, DetectionPostprocessor]]:
    """A predictor that has had batches of four often enough."""
    predictor, postprocessor = by_tensorrt(detect, gpu=gpu, stream=stream)
    for batch in batches:
        inputs = inputs_of(batch, detect)
        cells_of(list(predictor.submit(inputs)), postprocessor, inputs, batch)
    yield predictor, postprocessor
    predictor.close()


def test_a_batch_is_a_table_and_one_graph(
    gpu: CudaDevice,
    driver: FakeCudaDriver,
    stream: CudaStream,
    warm: tuple[CudaPredictor, DetectionPostprocessor],
    detect: Detect,
) -> None:
    predictor, postprocessor = warm
    batch = batch_of(CELLS[:4], gpu=gpu)
    inputs = inputs_of(batch, detect)

    with driver.journaling(model=stream) as journal:
        requests = list(predictor.submit(inputs))

    calls = [call for call in journal.calls if call.verb != "create_event"]  # for frames that are held together first
    assert [call.verb for call in calls] == ["wait"] * 4 + ["copy", "record", "launch_graph", "record"]
    assert {call.stream for call in calls} == {"model"}
    assert cells_of(requests, postprocessor, inputs, batch) == expected(CELLS[:4])


def test_frames_that_are_released_when_a_batch_was_read_cost_no_call(
    gpu: CudaDevice, driver: FakeCudaDriver, warm: tuple[CudaPredictor, DetectionPostprocessor], detect: Detect
) -> None:
    predictor, postprocessor = warm
    batch = batch_of(CELLS[:4], gpu=gpu)
    inputs = inputs_of(batch, detect)
    requests = list(predictor.submit(inputs))
    lent = gpu.memory.lent

    with driver.journaling() as journal:
        cells_of(requests, postprocessor, inputs, batch)
        del batch, inputs
        gc.collect()

    assert [call.verb for call in journal.calls] == ["synchronize"]
    assert gpu.memory.lent == lent - 4


def test_nobody_waits_before_a_result_is_read(
    driver: FakeCudaDriver, warm: tuple[CudaPredictor, DetectionPostprocessor], batches: list[Batch], detect: Detect
) -> None:
    predictor, postprocessor = warm
    inputs = [inputs_of(batch, detect) for batch in batches[:2]]

    with driver.journaling() as journal:
        requests = [list(predictor.submit(own)) for own in inputs]
    with driver.journaling() as reading:
        cells_of(requests[0], postprocessor, inputs[0], batches[0])

    assert journal.of(*WAITING) == []
    assert len(reading.of(*WAITING)) == 1


def test_a_third_batch_waits_for_the_first_one_alone(
    driver: FakeCudaDriver, warm: tuple[CudaPredictor, DetectionPostprocessor], batches: list[Batch], detect: Detect
) -> None:
    predictor, postprocessor = warm
    inputs = [inputs_of(batch, detect) for batch in batches[:3]]
    requests = [list(predictor.submit(own)) for own in inputs[:2]]

    with driver.journaling() as journal:
        requests.append(list(predictor.submit(inputs[2])))

    assert len(journal.of(*WAITING)) == 1
    found = [cells_of(own, postprocessor, inputs[number], batches[number]) for number, own in enumerate(requests)]
    assert found == [expected(CELLS[first : first + 4]) for first in (0, 4, 8)]


def test_no_memory_is_asked_for_any_more(
    driver: FakeCudaDriver, warm: tuple[CudaPredictor, DetectionPostprocessor], batches: list[Batch], detect: Detect
) -> None:
    predictor, postprocessor = warm

    with driver.journaling() as journal:
        for batch in batches:
            inputs = inputs_of(batch, detect)
            cells_of(list(predictor.submit(inputs)), postprocessor, inputs, batch)

    assert journal.of(*GIVING) == []


def test_only_metadata_crosses_to_the_host(
    gpu: CudaDevice, warm: tuple[CudaPredictor, DetectionPostprocessor], batches: list[Batch], detect: Detect
) -> None:
    predictor, postprocessor = warm
    before = gpu.transfers.counts

    for batch in batches:
        inputs = inputs_of(batch, detect)
        cells_of(list(predictor.submit(inputs)), postprocessor, inputs, batch)

    after = gpu.transfers.counts
    assert after.device_to_host_copies - before.device_to_host_copies == len(batches)
    assert after.device_to_host_bytes - before.device_to_host_bytes == len(batches) * METADATA_BYTES
    assert after.host_to_device_copies - before.host_to_device_copies == len(batches)
