"""A detector small enough to know every box of."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.devices.gpu.gpu import Gpu
from sightline_plugins import Detect
from sightline_plugins.testing.tensorrt_double import TensorRtDouble, tensorrt_double
from tests.unit.infer.tiny import LABELS, write_detector


@pytest.fixture
def tensorrt(gpu: Gpu) -> TensorRtDouble:
    return tensorrt_double(gpu)


@pytest.fixture
def detect(tmp_path: Path) -> Detect:
    model = write_detector(tmp_path / "tiny.onnx", rows="batch")
    return Detect(model=str(model), head="fastestdet", labels=LABELS, confidence=0.5, color="rgb")
