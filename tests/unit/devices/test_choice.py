"""Which device a configuration's `device` means, and the reasons."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest

from sightline.devices import Device, DeviceKind, choose_device, discovery, survey
from sightline.devices.cuda import compatibility, opening
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.libcuda import CudaFacts, DriverFacts
from sightline.devices.discovery import DeviceInUse, take_device
from sightline.errors import CudaError, DeviceUnavailable
from tests.fakes import FakeCudaDriver

H100 = CudaFacts(2, "NVIDIA H100", (9, 0), 80_000_000_000)
H200 = CudaFacts(0, "NVIDIA H200", (9, 0), 150_000_000_000)
K80 = CudaFacts(1, "Tesla K80", (3, 7), 12_000_000_000)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with two GPUs; packages are those of this environment."""
    facts = DriverFacts((13, 0), (H200, K80))
    for module in (opening, discovery, compatibility):
        monkeypatch.setattr(module, "driver_facts", lambda: facts)
    return monkeypatch


@pytest.fixture
def doubles(monkeypatch: pytest.MonkeyPatch) -> dict[int, CudaDevice | CudaError]:
    """What opening a GPU of a number gives, or raises."""
    made: dict[int, CudaDevice | CudaError] = {
        index: CudaDevice(FakeCudaDriver(index=index, memory_bytes=2**20)) for index in range(3)
    }

    def open_cuda(index: int) -> CudaDevice:
        found = made[index]
        if isinstance(found, CudaError):
            raise found
        return found

    monkeypatch.setattr(opening, "open_cuda", open_cuda)
    return made


def with_three(monkeypatch: pytest.MonkeyPatch, *gpus: CudaFacts) -> None:
    for module in (opening, discovery):
        monkeypatch.setattr(module, "driver_facts", lambda: DriverFacts((13, 0), gpus))


def without_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = DriverFacts(reason="no NVIDIA driver on this machine (libcuda.so.1 is missing)")
    for module in (opening, discovery):
        monkeypatch.setattr(module, "driver_facts", lambda: facts)


def test_auto_is_the_first_gpu(machine: pytest.MonkeyPatch) -> None:
    choice = choose_device("auto")

    assert choice.device == Device(DeviceKind.CUDA, 0)
    assert choice.reason == "NVIDIA H200, compute capability 9.0, 139.7 GiB"


def test_auto_is_the_first_gpu_that_can_be_used(machine: pytest.MonkeyPatch) -> None:
    with_three(machine, replace(K80, index=0), replace(H200, index=1), H100)

    choice = choose_device("auto")

    assert (choice.devices, choice.reason) == ((Device(DeviceKind.CUDA, 1),), str(H200))


@pytest.mark.parametrize(("newest", "usable"), [((12, 9), False), ((13, 0), True), ((14, 1), True)])
def test_a_driver_for_an_older_cuda_than_the_packages_is_refused_before_it_refuses_kernels(
    machine: pytest.MonkeyPatch, newest: tuple[int, int], usable: bool
) -> None:
    machine.setattr(opening, "driver_facts", lambda: DriverFacts(newest, (H200,)))

    reason = opening.why_not(0)

    assert (reason is None) is usable
    if reason is not None:
        assert re.match(
            r"the NVIDIA driver is for CUDA up to 12.9, and cuda-bindings 13\S* is for CUDA 13: pip", reason
        )


def test_cuda_is_all_gpus_that_can_be_used_and_says_what_is_left_out(machine: pytest.MonkeyPatch) -> None:
    with_three(machine, H200, K80, H100)

    choice = choose_device("cuda")

    assert str(choice) == "cuda:0, cuda:2"
    assert choice.device == Device(DeviceKind.CUDA, 0)
    assert choice.reason.startswith("NVIDIA H200, compute capability 9.0, 139.7 GiB; NVIDIA H100, ")
    assert re.search(r"; without cuda:1: Tesla K80, .* is older than Turing, compute capability 7.5$", choice.reason)


def test_cuda_opens_all_of_them(machine: pytest.MonkeyPatch, doubles: dict[int, CudaDevice | CudaError]) -> None:
    with_three(machine, H200, K80, H100)

    taken = take_device("cuda")

    assert (str(taken), taken.gpus) == ("cuda:0, cuda:2", (doubles[0], doubles[2]))
    taken.let_go()
    assert [one.is_closed for one in taken.gpus] == [True, True]


def test_one_that_does_not_open_is_left_out_and_told(
    machine: pytest.MonkeyPatch, doubles: dict[int, CudaDevice | CudaError]
) -> None:
    with_three(machine, H200, K80, H100)
    doubles[0] = CudaError("cuda:0 cannot be opened: it is taken")

    taken = take_device("cuda")

    assert str(taken) == "cuda:2"
    assert taken.reason.endswith("; cuda:0 cannot be opened: it is taken")


def test_when_none_opens_the_first_error_is_raised(
    machine: pytest.MonkeyPatch, doubles: dict[int, CudaDevice | CudaError]
) -> None:
    doubles[0] = CudaError("cuda:0 cannot be opened: it is taken")

    with pytest.raises(CudaError, match="it is taken"):
        take_device("cuda")


def test_auto_without_a_gpu_is_the_cpu_and_says_why(machine: pytest.MonkeyPatch) -> None:
    without_driver(machine)

    choice = choose_device("auto")

    assert choice.device == Device()
    assert choice.reason == "no GPU: no NVIDIA driver on this machine (libcuda.so.1 is missing)"


def test_auto_without_the_packages_is_the_cpu_and_says_what_to_install(machine: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        raise PackageNotFoundError(package)

    machine.setattr(compatibility, "version", version)

    assert "but not the package cuda-bindings: pip install 'sightline[gpu]'" in choose_device("auto").reason


@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:0"])
def test_a_broken_onnx_runtime_is_said_with_the_gpu_whose_models_it_would_compute(
    machine: pytest.MonkeyPatch, name: str
) -> None:
    machine.setattr(discovery, "reason_against_onnxruntime", lambda: "one overwrites the other")

    assert choose_device(name).reason.endswith("without ONNX Runtime on GPUs: one overwrites the other")


def test_cpu_is_the_cpu_whatever_there_is(machine: pytest.MonkeyPatch) -> None:
    assert choose_device("cpu").device == Device()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cuda:1", r"device 'cuda:1' cannot be used: Tesla K80, .* is older than Turing"),
        ("cuda:2", r"there is no GPU of that number; there is cuda:0 \(NVIDIA H200\), cuda:1 \(Tesla K80\)"),
        ("cuda:", r"is unknown: use auto, cpu, cuda or cuda:N"),
        ("gpu", r"is unknown: use auto, cpu, cuda or cuda:N"),
    ],
)
def test_what_can_not_be_used_is_refused_with_the_reason(machine: pytest.MonkeyPatch, name: str, said: str) -> None:
    with pytest.raises(DeviceUnavailable, match=said):
        choose_device(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_a_gpu_without_a_driver_is_refused_with_the_reason(machine: pytest.MonkeyPatch, name: str) -> None:
    without_driver(machine)

    with pytest.raises(DeviceUnavailable, match=r"no NVIDIA driver .*; use device: cpu or auto$"):
        choose_device(name)


def test_the_survey_has_every_gpu_with_its_reason(machine: pytest.MonkeyPatch) -> None:
    found = {report.name: report for report in survey()}

    assert [*found] == ["cpu", "cuda:0", "cuda:1"]
    assert found["cuda:0"].usable
    assert "older than Turing" in found["cuda:1"].detail


def test_choosing_imports_no_gpu_library() -> None:
    before = set(sys.modules)  # a test before this one in the same process may have imported them

    choose_device("auto")

    assert not {"pycuda", "PyNvVideoCodec", "tensorrt"} & (set(sys.modules) - before)


def test_taking_the_cpu_opens_nothing(machine: pytest.MonkeyPatch) -> None:
    assert take_device("cpu") == DeviceInUse((Device(),), "the configuration says so")
