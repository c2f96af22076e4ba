"""A detector small enough to know every box of."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline_plugins import Detect
from tests.fakes.tensorrt import FakeTensorRt, fake_tensorrt
from tests.unit.infer.tiny import LABELS, write_detector


@pytest.fixture
def tensorrt(gpu: CudaDevice) -> FakeTensorRt:
    return fake_tensorrt(gpu)


@pytest.fixture
def detect(tmp_path: Path) -> Detect:
    model = write_detector(tmp_path / "tiny.onnx", rows="batch")
    return Detect(model=str(model), head="fastestdet", labels=LABELS, confidence=0.5, color="rgb")
