"""Packages, drivers and GPUs that cannot work together are refused with the reason and what to install."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from sightline.devices.cuda import nvrtc
from sightline.devices.cuda.compatibility import (
    onnxruntime_too_new,
    reason_against,
    reason_against_onnxruntime,
    reason_against_tensorrt,
)
from sightline.devices.cuda.libcuda import CudaFacts, DriverFacts, extra_for_driver
from sightline.errors import MissingExtra
from sightline_plugins.decode import nvdec_library
from sightline_plugins.decode.nvdec_library import NvdecError

Install = Callable[..., None]
L4 = CudaFacts(0, "NVIDIA L4", (8, 9), 24 * 2**30)
V100 = CudaFacts(0, "Tesla V100", (7, 0), 16 * 2**30)
ONNXRUNTIME_FOR_13 = ('nvidia-cuda-runtime~=13.0; extra == "cuda"', 'nvidia-cudnn-cu13~=9.0; extra == "cudnn"')
ONNXRUNTIME_FOR_12 = ('nvidia-cuda-runtime-cu12~=12.0; extra == "cuda"', 'nvidia-cudnn-cu12~=9.0; extra == "cudnn"')


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package as pip leaves it behind, before those of this environment."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, version: str, *requirements: str) -> None:
        about = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        about.mkdir()
        needed = "".join(f"Requires-Dist: {one}\n" for one in requirements)
        (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{needed}")

    return install


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the version of NVRTC and the compute capabilities that it compiles for."""

    def compiles(version: tuple[int, int], *architectures: int) -> None:
        monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: version)
        monkeypatch.setattr(nvrtc, "supported_architectures", lambda: architectures)

    return compiles


def on_driver(monkeypatch: pytest.MonkeyPatch, *cuda: int, gpus: tuple[CudaFacts, ...] = (L4,)) -> DriverFacts:
    facts = DriverFacts((cuda[0], cuda[1]), gpus)
    for module in ("compatibility", "libcuda"):
        monkeypatch.setattr(f"sightline.devices.cuda.{module}.driver_facts", lambda: facts)
    return facts


@pytest.mark.parametrize(
    ("cuda", "bindings", "compiler"),
    [
        ((12, 2), "12.9.4", (12, 9)),
        ((13, 0), "12.9.4", (12, 9)),
        ((13, 0), "13.5.0", (13, 5)),
        ((14, 0), "13.5.0", (13, 5)),
    ],
)
def test_a_driver_loads_what_is_for_its_own_cuda_and_for_older_ones(
    install: Install,
    compiles: Callable[..., None],
    cuda: tuple[int, int],
    bindings: str,
    compiler: tuple[int, int],
) -> None:
    install("cuda-bindings", bindings)
    compiles(compiler, 75, 89)

    assert reason_against(L4, DriverFacts(cuda, (L4,))) is None


def test_packages_for_cuda_13_on_a_driver_for_cuda_12_are_exchanged(install: Install) -> None:
    install("cuda-bindings", "13.5.0")

    assert reason_against(L4, DriverFacts((12, 4), (L4,))) == (
        "the NVIDIA driver is for CUDA up to 12.4, and cuda-bindings 13.5.0 is for CUDA 13: "
        "pip uninstall -y nvidia-cuda-nvrtc && pip install 'sightline[gpu-cu12]', "
        "or install a driver of release 580 or newer"
    )


def test_nvrtc_13_that_was_left_behind_is_removed(install: Install, compiles: Callable[..., None]) -> None:
    install("cuda-bindings", "12.9.10")
    compiles((13, 5), 75, 89)

    assert reason_against(L4, DriverFacts((12, 9), (L4,))) == (
        "the NVIDIA driver is for CUDA up to 12.9, and NVRTC 13.5 is for CUDA 13: "
        "pip uninstall -y nvidia-cuda-nvrtc && pip install 'sightline[gpu-cu12]', "
        "or install a driver of release 580 or newer"
    )


def test_a_driver_from_before_cuda_12_has_to_be_newer() -> None:
    assert reason_against(L4, DriverFacts((11, 8), (L4,))) == (
        "the NVIDIA driver is for CUDA up to 11.8: install a driver of release 525 or newer"
    )


def test_bindings_that_keep_the_gil_are_refused(install: Install) -> None:
    install("cuda-bindings", "12.9.0")

    assert reason_against(L4, DriverFacts((12, 9), (L4,))) == (
        "cuda-bindings 12.9.0 is older than 12.9.1: pip install 'sightline[gpu-cu12]'"
    )


@pytest.mark.parametrize(("cuda", "extra"), [((12, 4), "gpu-cu12"), ((13, 0), "gpu")])
def test_a_missing_package_is_named_with_the_extra_for_this_driver(
    monkeypatch: pytest.MonkeyPatch, cuda: tuple[int, int], extra: str
) -> None:
    def version(package: str) -> str:
        raise PackageNotFoundError(package)

    for module in ("compatibility", "libcuda"):
        monkeypatch.setattr(f"sightline.devices.cuda.{module}.version", version)

    reason = reason_against(L4, DriverFacts(cuda, (L4,)))

    assert reason == f"{L4} is there, but not the package cuda-bindings: pip install 'sightline[{extra}]'"


def test_without_nvrtc_no_gpu_is_usable(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> tuple[int, int]:
        raise MissingExtra("nvidia-cuda-nvrtc", extra="gpu", purpose="compiling kernels for a GPU")

    install("cuda-bindings", "13.5.0")
    monkeypatch.setattr(nvrtc, "nvrtc_version", missing)

    reason = reason_against(L4, DriverFacts((13, 0), (L4,)))

    assert reason is not None
    assert reason.endswith("needs the package 'nvidia-cuda-nvrtc': pip install 'sightline[gpu]'")


def test_a_gpu_older_than_turing_is_refused() -> None:
    assert reason_against(V100, DriverFacts((12, 9), (V100,))) == f"{V100} is older than Turing, compute capability 7.5"


@pytest.mark.parametrize(
    ("bindings", "compiler", "advice"),
    [
        ("12.9.4", (12, 9), "pip install --upgrade nvidia-cuda-nvrtc-cu12"),
        ("13.0.0", (13, 0), "pip install --upgrade nvidia-cuda-nvrtc"),
    ],
)
def test_a_gpu_that_the_compiler_does_not_know_needs_a_newer_one(
    install: Install, compiles: Callable[..., None], bindings: str, compiler: tuple[int, int], advice: str
) -> None:
    install("cuda-bindings", bindings)
    compiles(compiler, 75, 80)

    reason = reason_against(L4, DriverFacts((13, 0), (L4,)))

    named = "NVRTC {}.{}".format(*compiler)
    assert reason == f"{named} compiles for compute capability 7.5, 8.0, not for {L4}: {advice}"


def test_the_nvrtc_of_this_environment_compiles_for_every_gpu_that_kernels_are_tested_for() -> None:
    assert set(nvrtc.ARCHITECTURES) <= set(nvrtc.supported_architectures())


@pytest.mark.parametrize(
    ("cuda", "bindings", "extra"),
    [((12, 4), "13.5.0", "gpu-cu12"), ((13, 0), "12.9.4", "gpu-cu12"), ((13, 0), "13.5.0", "gpu")],
)
def test_messages_name_the_extra_for_the_driver_and_the_bindings(
    install: Install, monkeypatch: pytest.MonkeyPatch, cuda: tuple[int, int], bindings: str, extra: str
) -> None:
    install("cuda-bindings", bindings)
    on_driver(monkeypatch, *cuda)

    assert extra_for_driver() == extra


def test_a_missing_video_decoder_is_named_with_the_extra_for_cuda_12(monkeypatch: pytest.MonkeyPatch) -> None:
    on_driver(monkeypatch, 12, 4)
    monkeypatch.setattr(nvdec_library, "nvdec_library", object)
    monkeypatch.setattr(nvdec_library, "import_module", _lacks)
    nvdec_library._installed.cache_clear()

    with pytest.raises(NvdecError, match=r"PyNvVideoCodec is missing: pip install 'sightline\[gpu-cu12\]'"):
        nvdec_library._installed()


def _lacks(name: str) -> None:
    raise ModuleNotFoundError(name)


def test_tensorrt_for_cuda_13_on_a_driver_for_cuda_12_is_exchanged(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("tensorrt-cu13-bindings", "11.4.0")
    on_driver(monkeypatch, 12, 9)

    assert reason_against_tensorrt() == (
        "the NVIDIA driver is for CUDA up to 12.9, and TensorRT 11.4.0 is for CUDA 13: "
        "pip uninstall -y tensorrt-cu13 tensorrt-cu13-bindings tensorrt-cu13-libs && "
        "pip install 'sightline[tensorrt-cu12]', or install a driver of release 580 or newer"
    )


@pytest.mark.parametrize("packages", [(), ("tensorrt-cu12-bindings",)])
def test_a_tensorrt_that_fits_or_is_not_there_is_no_reason(
    install: Install, monkeypatch: pytest.MonkeyPatch, packages: tuple[str, ...]
) -> None:
    for package in packages:
        install(package, "10.9")
    on_driver(monkeypatch, 13, 0)

    assert reason_against_tensorrt() is None


def test_two_builds_of_tensorrt_overwrite_each_other(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("tensorrt-cu12-bindings", "10.9")
    install("tensorrt-cu13-bindings", "11.4")
    install("cuda-bindings", "13.5.0")
    on_driver(monkeypatch, 13, 0)

    reason = reason_against_tensorrt()

    assert reason is not None
    assert "overwrite each other's files" in reason
    assert reason.endswith("&& pip install 'sightline[tensorrt]'")


@pytest.mark.parametrize(
    ("cuda", "gpus", "kept"),
    [
        ((13, 0), (L4,), "'onnxruntime-gpu[cuda,cudnn]'"),
        ((12, 4), (L4,), "'onnxruntime-gpu[cuda,cudnn]<1.27'"),
        ((13, 0), (), "onnxruntime"),
    ],
)
def test_two_builds_of_onnx_runtime_overwrite_each_other(
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    cuda: tuple[int, int],
    gpus: tuple[CudaFacts, ...],
    kept: str,
) -> None:
    install("onnxruntime", "1.32.0")
    install("onnxruntime-gpu", "1.31.1", *ONNXRUNTIME_FOR_13)
    on_driver(monkeypatch, *cuda, gpus=gpus)

    assert reason_against_onnxruntime() == (
        "onnxruntime 1.32.0 and onnxruntime-gpu 1.31.1 overwrite each other's files; keep one, for example: "
        f"pip uninstall -y onnxruntime onnxruntime-gpu && pip install {kept}"
    )


def test_onnx_runtime_for_cuda_13_on_a_driver_for_cuda_12_is_exchanged(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("onnxruntime-gpu", "1.31.1", *ONNXRUNTIME_FOR_13)
    on_driver(monkeypatch, 12, 4)

    assert onnxruntime_too_new() == (
        "the NVIDIA driver is for CUDA up to 12.4, and onnxruntime-gpu 1.31.1 is for CUDA 13: "
        "pip install 'onnxruntime-gpu[cuda,cudnn]<1.27', or install a driver of release 580 or newer"
    )


@pytest.mark.parametrize("requirements", [ONNXRUNTIME_FOR_12, ()])
def test_onnx_runtime_for_cuda_12_works_with_every_driver(
    install: Install, monkeypatch: pytest.MonkeyPatch, requirements: tuple[str, ...]
) -> None:
    install("onnxruntime-gpu", "1.26.0", *requirements)
    on_driver(monkeypatch, 12, 4)

    assert onnxruntime_too_new() is None
