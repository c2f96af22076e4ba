"""The extras for NVIDIA GPUs install from wheels alone, and answer on machines without a driver or with an old one.

Each environment shares the packages of a base installation with this one by links (pip finds them satisfied); what the
extra adds is installed from the index, or from pip's cache, by pip's own resolution: about 100 MB. `PATH` holds no
program at all, so nothing can be compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.integration.release.environments import Environment, new_environment
from tests.null_driver import build_null_driver

EXTRAS = {"gpu": "13", "gpu-cu12": "12"}
"""The extras, and the CUDA that their packages are for."""
OF_GPUS = ("cuda", "nvidia", "pynvvideocodec", "PyNvVideoCodec", "tensorrt")
PIPELINE = """
sources: {bars: {pattern: moving, size: [64, 48], frames: 3, fps: 5}}
pipeline:
  - jsonl: {path: "out/{stream}.jsonl"}
"""
COMPILE = """
from pathlib import Path
import sightline_plugins
from sightline.devices.cuda.driver import KernelSource
from sightline.devices.cuda.nvrtc import compile_cubin, nvrtc_version
kernel = Path(sightline_plugins.__file__).parent / "preprocess" / "cuda.cu"
print(nvrtc_version()[0], compile_cubin(KernelSource.read(kernel), architecture=86)[1:4].decode())
"""


@pytest.fixture(scope="module", params=EXTRAS)
def extra(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def environment(extra: str, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with Sightline and that extra, installed without any other program."""
    folder = tmp_path_factory.mktemp("extra")
    made = new_environment(folder / "venv", wheel, without=OF_GPUS)
    (folder / "bin").mkdir()
    pip = (sys.executable, "-m", "pip", "--python", str(made.folder / "bin" / "python"), "--disable-pip-version-check")
    done = subprocess.run(
        [*pip, "install", "--quiet", "--only-binary", ":all:", "--no-warn-script-location", f"{wheel}[{extra}]"],
        env={**os.environ, "PATH": str(folder / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        missing(f"pip cannot install the extra {extra} here: {done.stderr.strip().splitlines()[-1]}")
    return made


@pytest.fixture(scope="module")
def old_driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a driver for CUDA 12.4, for `LD_LIBRARY_PATH`."""
    return str(build_null_driver(tmp_path_factory.mktemp("driver"), cuda_version=12040).parent)


@dataclass(frozen=True)
class Reports:
    """What `doctor` prints where metadata of a second package of ONNX Runtime lies beside the first."""

    without_driver: str
    with_driver: str


@pytest.fixture(scope="module")
def reports(environment: Environment, old_driver: str, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    about = environment.packages / "onnxruntime_gpu-1.26.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.4\nName: onnxruntime-gpu\nVersion: 1.26.0\n")
    folder = tmp_path_factory.mktemp("doctor")
    without = environment.run("sightline", "doctor", cwd=folder, PATH=str(folder))
    with_driver = environment.run("sightline", "doctor", cwd=folder, LD_LIBRARY_PATH=old_driver)
    (about / "METADATA").unlink()
    about.rmdir()
    assert without.returncode == 0, without.stderr
    return Reports(without.stdout, with_driver.stdout)


def test_kernels_compile_with_what_the_extra_brings(extra: str, environment: Environment, tmp_path: Path) -> None:
    done = environment.run("python", "-c", COMPILE, cwd=tmp_path, PATH=str(tmp_path), SIGHTLINE_CACHE="off")

    assert done.stdout.strip() == f"{EXTRAS[extra]} ELF", done.stderr


def test_doctor_lists_what_is_installed_and_that_there_is_no_driver(extra: str, reports: Reports) -> None:
    rows = {line.split()[0]: line for line in reports.without_driver.splitlines() if line.startswith("  ")}
    assert "no NVIDIA driver on this machine (libcuda.so.1 is missing)" in rows["cuda"]
    for part in ("cuda-bindings", "NVRTC"):
        assert f"not usable: {EXTRAS[extra]}." in rows[part]
    assert "is installed, but there is no driver" in rows["PyNvVideoCodec"]


def test_a_run_on_a_gpu_is_one_line_about_the_missing_driver(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(PIPELINE)

    done = environment.run("sightline", "run", "gate.yaml", "--device", "cuda", cwd=tmp_path, PATH=str(tmp_path))

    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "device 'cuda' cannot be used: no NVIDIA driver on this machine" in line


def test_on_a_driver_for_cuda_12_the_extra_for_it_runs_and_the_other_is_refused_with_its_name(
    extra: str, environment: Environment, tmp_path: Path, old_driver: str, reports: Reports
) -> None:
    (tmp_path / "gate.yaml").write_text(PIPELINE)
    run = ("sightline", "run", "gate.yaml", "--device", "cuda:0")

    done = environment.run(*run, cwd=tmp_path, LD_LIBRARY_PATH=old_driver)

    if extra == "gpu-cu12":
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "out" / "bars.jsonl").read_text().count("\n") == 3
        assert "  cuda:0  usable: " in reports.with_driver
    else:
        reason = "the NVIDIA driver is for CUDA up to 12.4, and cuda-bindings 13"
        assert (done.returncode, reason in done.stderr) == (2, True)
        assert "pip install 'sightline[gpu-cu12]'" in done.stderr
        assert f"cuda:0  not usable: {reason}" in reports.with_driver


def test_doctor_names_two_packages_of_onnx_runtime(extra: str, reports: Reports) -> None:
    exchange = "overwrite each other's files; keep one, for example: pip uninstall -y onnxruntime onnxruntime-gpu && "
    assert f"{exchange}pip install onnxruntime\n" in reports.without_driver
    assert f"{exchange}pip install 'onnxruntime-gpu[cuda,cudnn]<1.27'\n" in reports.with_driver
