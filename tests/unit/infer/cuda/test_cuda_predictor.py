from __future__ import annotations

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Harm
from sightline.errors import CudaFailed
from sightline_plugins import Detect
from tests.fakes import FakeCudaDriver
from tests.fakes.tensorrt import FakeTensorRt
from tests.unit.infer.cuda.predictors import CELLS, batch_of, by_tensorrt, cells_of, expected, find, inputs_of


@pytest.mark.parametrize("count", [1, 3, 8, 36])
def test_each_image_gets_what_was_found_on_it(
    gpu: CudaDevice, tensorrt: FakeTensorRt, detect: Detect, count: int
) -> None:
    predictor, postprocessor = by_tensorrt(detect, gpu=gpu, stream=gpu.stream("model"), most_rows=16)

    found = find(predictor, postprocessor, detect, CELLS[:count], gpu=gpu)

    assert found == expected(CELLS[:count])
    predictor.close()


def test_batches_are_rounded_up_to_the_sizes_of_the_list(
    gpu: CudaDevice, tensorrt: FakeTensorRt, detect: Detect
) -> None:
    predictor, postprocessor = by_tensorrt(detect, gpu=gpu, stream=gpu.stream("model"), most_rows=12)

    for count in (1, 2, 3, 5, 7, 8, 11, 12, 17):
        find(predictor, postprocessor, detect, CELLS[:count], gpu=gpu)

    shapes = {call.removeprefix("set shape images ") for call in tensorrt.calls if call.startswith("set shape")}
    assert shapes == {f"({rows}, 3, 32, 32)" for rows in (1, 2, 4, 6, 8, 12)}
    predictor.close()


def test_images_of_a_batch_that_is_not_full_do_not_come_from_the_one_before(
    gpu: CudaDevice, tensorrt: FakeTensorRt, detect: Detect
) -> None:
    predictor, postprocessor = by_tensorrt(detect, gpu=gpu, stream=gpu.stream("model"), most_rows=8)
    for first in range(0, 32, 8):
        find(predictor, postprocessor, detect, CELLS[first : first + 8], gpu=gpu)

    found = find(predictor, postprocessor, detect, CELLS[31:36], gpu=gpu)

    assert found == expected(CELLS[31:36])
    predictor.close()


def test_results_can_be_read_after_it_was_closed(gpu: CudaDevice, tensorrt: FakeTensorRt, detect: Detect) -> None:
    predictor, postprocessor = by_tensorrt(detect, gpu=gpu, stream=gpu.stream("model"))
    batch = batch_of(CELLS[:4], gpu=gpu)
    inputs = inputs_of(batch, detect)

    requests = list(predictor.submit(inputs))
    predictor.close()

    assert cells_of(requests, postprocessor, inputs, batch) == expected(CELLS[:4])


def test_memory_goes_back_when_it_is_closed_although_somebody_holds_it(
    gpu: CudaDevice, tensorrt: FakeTensorRt, detect: Detect
) -> None:
    predictor, postprocessor = by_tensorrt(detect, gpu=gpu, stream=gpu.stream("model"))
    for _ in range(8):
        find(predictor, postprocessor, detect, CELLS[:3], gpu=gpu)

    predictor.close()

    assert (gpu.memory.lent, gpu.pinned.lent) == (0, 0)
    assert predictor.report["graphs"] == [4]


def test_a_gpu_that_breaks_is_reported_by_its_requests(
    gpu: CudaDevice, driver: FakeCudaDriver, tensorrt: FakeTensorRt, detect: Detect
) -> None:
    predictor, _ = by_tensorrt(detect, gpu=gpu, stream=gpu.stream("model"))
    [request] = predictor.submit(inputs_of(batch_of(CELLS[:1], gpu=gpu), detect))
    assert request is not None
    driver.fail_next("work", "an illegal address", harm=Harm.DEVICE)

    with pytest.raises(CudaFailed, match="an illegal address"):
        request.wait()

    with pytest.raises(CudaFailed, match="an illegal address"):
        request.wait()
    predictor.close()


def test_the_report_names_what_computes_and_which_batches_are_graphs(
    gpu: CudaDevice, tensorrt: FakeTensorRt, detect: Detect
) -> None:
    predictor, postprocessor = by_tensorrt(detect, gpu=gpu, stream=gpu.stream("model"))
    for _ in range(6):
        find(predictor, postprocessor, detect, CELLS[:3], gpu=gpu)

    report = predictor.report

    assert (report["engine"], report["engine_runs_on"], report["heads_run_on"]) == ("tensorrt", "cuda:0", "cuda:0")
    assert report["graphs"] == [4]
    predictor.close()
