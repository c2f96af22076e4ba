"""Which library there is, what it compiles for, and why there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import DeviceUnavailable, MissingExtra
from sightline_plugins.engines import tensorrt_library
from sightline_plugins.engines.tensorrt_library import PACKAGES, TensorRt, installed, library_for
from tests.fakes.tensorrt import FakeTensorRt, fake_tensorrt

MODULE = """
__version__ = "{version}"
class ILogger:
    pass
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is the only place with packages of TensorRT."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in PACKAGES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    installed.cache_clear()
    yield tmp_path
    installed.cache_clear()
    for name in PACKAGES:
        sys.modules.pop(name, None)


def put(packages: Path, name: str, text: str) -> None:
    (packages / f"{name}.py").write_text(text)


def test_tensorrt_goes_before_tensorrt_rtx(packages: Path) -> None:
    put(packages, "tensorrt", MODULE.format(version="10.13.2"))
    put(packages, "tensorrt_rtx", MODULE.format(version="1.7.1"))

    assert str(installed()) == "TensorRT 10.13.2"


def test_tensorrt_rtx_is_used_where_it_is_alone(packages: Path) -> None:
    put(packages, "tensorrt_rtx", MODULE.format(version="1.7.1"))

    assert str(installed()) == "TensorRT-RTX 1.7.1"


def test_one_that_does_not_load_gives_way_to_the_other(packages: Path) -> None:
    put(packages, "tensorrt", "raise OSError('libnvinfer.so.10 is missing')")
    put(packages, "tensorrt_rtx", MODULE.format(version="1.7.1"))

    assert str(installed()) == "TensorRT-RTX 1.7.1"


def test_without_both_the_extra_is_named(packages: Path) -> None:
    with pytest.raises(
        MissingExtra, match=r"engine tensorrt needs the package 'tensorrt': pip install 'sightline\[tensorrt\]'"
    ):
        installed()


def test_where_none_loads_the_reasons_are_told(packages: Path) -> None:
    put(packages, "tensorrt", "raise OSError('libnvinfer.so.10 is missing')")

    with pytest.raises(DeviceUnavailable) as caught:
        installed()

    assert str(caught.value) == (
        "engine tensorrt cannot be used: TensorRT cannot be imported: libnvinfer.so.10 is missing; "
        "use engine: onnxruntime"
    )


def test_what_it_compiles_for_is_asked_of_the_library(gpu: CudaDevice, double: FakeTensorRt) -> None:
    assert library_for(gpu).targets == [(8, 6), (8, 9)]


def test_one_that_compiles_on_the_gpu_names_nothing(gpu: CudaDevice) -> None:
    fake_tensorrt(gpu, rtx=False, version="10.13.0")

    assert (library_for(gpu).targets, library_for(gpu).compiles_ahead) == ([], False)


def test_a_fake_is_for_its_gpu_alone(gpu: CudaDevice, double: FakeTensorRt, monkeypatch: pytest.MonkeyPatch) -> None:
    other = TensorRt(double, title="the installed one")
    monkeypatch.setattr(tensorrt_library, "installed", lambda: other)
    monkeypatch.setattr(tensorrt_library, "driver_facts", lambda: SimpleNamespace(reason=None))

    assert library_for(gpu) is not other


def test_tensorrt_for_another_cuda_than_the_driver_is_refused_before_it_is_imported(
    monkeypatch: pytest.MonkeyPatch, gpu: CudaDevice
) -> None:
    monkeypatch.setattr(tensorrt_library, "driver_facts", lambda: SimpleNamespace(reason=None))
    monkeypatch.setattr(tensorrt_library, "reason_against_tensorrt", lambda: "TensorRT 11 is for CUDA 13")
    monkeypatch.setattr(tensorrt_library, "installed", lambda: pytest.fail("it was imported"))

    with pytest.raises(DeviceUnavailable, match="engine tensorrt cannot be used: TensorRT 11 is for CUDA 13"):
        library_for(gpu)
