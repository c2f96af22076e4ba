"""On a real GPU: models' inputs, drawings and whole pipelines are the CPU's."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.media import PixelFormat
from sightline.testing import run_element
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.cuda import CudaPreprocessor
from sightline_plugins.preprocess.definition import Convert, Preprocessing, Resize
from tests.integration.gpu.small_clips import SIZES, write_small_clip
from tests.integration.gpu.test_pipeline import everything, motion, run
from tests.unit.draw.crowded import FORMATS, assert_same_images, crowded_batches, on_gpu
from tests.unit.draw.test_on_a_gpu import ELEMENTS
from tests.unit.preprocess.test_cuda_preprocessor import assert_same, parts_of, surfaces

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("convert", ["network", "image"])
@pytest.mark.parametrize("resize", ["bilinear", "nearest", "area", "antialias"])
def test_inputs_of_models_are_those_of_the_cpu(gpu: CudaDevice, resize: Resize, convert: Convert) -> None:
    definition = Preprocessing((67, 51), resize=resize, convert=convert)
    parts = parts_of(surfaces(), definition)

    made = list(CudaPreprocessor(definition, gpu=gpu).prepare_all(parts))

    assert_same(made, list(HostPreprocessor(definition).prepare_all(parts)))


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("name", ELEMENTS)
def test_drawn_and_hidden_pixels_are_those_of_the_cpu(gpu: CudaDevice, name: str, pixel_format: PixelFormat) -> None:
    batches = crowded_batches(pixel_format)

    made = run_element(ELEMENTS[name], [on_gpu(batch, gpu) for batch in batches], gpu=gpu)

    assert_same_images(made, run_element(ELEMENTS[name], batches))


@pytest.mark.parametrize("size", [1, 8])
def test_records_and_videos_are_the_cpus_to_the_byte(
    gpu: CudaDevice, repository: Path, tmp_path: Path, size: int
) -> None:
    clips = {name: write_small_clip(repository / "sample_videos" / f"{name}.mp4", tmp_path) for name in SIZES}

    expected = run(clips, everything(repository), tmp_path / "cpu")[1]
    report, written = run(clips, everything(repository), tmp_path / "gpu", gpu=gpu, size=size)

    assert written == expected
    assert gpu.memory.lent == gpu.pinned.lent == 0
    assert report.runs_on["draw-1"] == "cuda:0"


def test_motion_and_steadied_videos_are_the_cpus_to_the_byte(gpu: CudaDevice, repository: Path, tmp_path: Path) -> None:
    clips = {name: write_small_clip(repository / "sample_videos" / f"{name}.mp4", tmp_path) for name in SIZES}

    expected = run(clips, motion(), tmp_path / "cpu", probed="steady")[1]
    report, written = run(clips, motion(), tmp_path / "gpu", gpu=gpu, probed="steady")

    assert written == expected
    assert report.runs_on["steady"] == "cuda:0"
