"""Which device a configuration's `device` means, and the reasons."""

from __future__ import annotations

import sys

import pytest

from sightline.devices import Device, DeviceKind, choose_device, discovery, survey
from sightline.devices.gpu import availability
from sightline.devices.gpu.libcuda import DriverFacts, GpuFacts
from sightline.devices.use import DeviceInUse, take_device
from sightline.errors import DeviceUnavailable

H200 = GpuFacts(0, "NVIDIA H200", (9, 0), 150_000_000_000)
K80 = GpuFacts(1, "Tesla K80", (3, 7), 12_000_000_000)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with two GPUs and all packages."""
    facts = DriverFacts((13, 0), (H200, K80))
    for module in (availability, discovery):
        monkeypatch.setattr(module, "driver_facts", lambda: facts)
    monkeypatch.setattr(availability, "_is_installed", lambda _: True)
    return monkeypatch


def without_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = DriverFacts(reason="no NVIDIA driver on this machine (libcuda.so.1 is missing)")
    for module in (availability, discovery):
        monkeypatch.setattr(module, "driver_facts", lambda: facts)


def test_auto_is_the_first_gpu(machine: pytest.MonkeyPatch) -> None:
    choice = choose_device("auto")

    assert choice.device == Device(DeviceKind.CUDA, 0)
    assert choice.reason == "NVIDIA H200, compute capability 9.0, 139.7 GiB"


def test_auto_without_a_gpu_is_the_cpu_and_says_why(machine: pytest.MonkeyPatch) -> None:
    without_driver(machine)

    choice = choose_device("auto")

    assert choice.device == Device()
    assert choice.reason == "no GPU: no NVIDIA driver on this machine (libcuda.so.1 is missing)"


def test_auto_without_the_packages_is_the_cpu_and_says_what_to_install(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(availability, "_is_installed", lambda module: module != "pycuda")

    assert "but not the package pycuda: pip install 'sightline[gpu]'" in choose_device("auto").reason


def test_cpu_is_the_cpu_whatever_there_is(machine: pytest.MonkeyPatch) -> None:
    assert choose_device("cpu").device == Device()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cuda:1", r"device 'cuda:1' can not be used: Tesla K80, .* is older than Turing"),
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
    choose_device("auto")

    assert not {"pycuda", "PyNvVideoCodec", "tensorrt"} & set(sys.modules)


def test_taking_the_cpu_opens_nothing(machine: pytest.MonkeyPatch) -> None:
    assert take_device("cpu") == DeviceInUse((Device(),), "the configuration says so")
