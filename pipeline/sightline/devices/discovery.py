"""Find the devices of this machine, choose one, and open it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sightline.devices.cuda.compatibility import reason_against_onnxruntime
from sightline.devices.cuda.libcuda import driver_facts
from sightline.devices.cuda.opening import why_not
from sightline.errors import ConfigurationError, CudaError, DeviceUnavailable

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice


class DeviceKind(StrEnum):
    """What sort of processor a device is."""

    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True, slots=True)
class Device:
    """Where an operator runs: `cpu`, or `cuda:N`."""

    kind: DeviceKind = DeviceKind.CPU
    index: int = 0

    def __str__(self) -> str:
        return "cpu" if self.kind is DeviceKind.CPU else f"cuda:{self.index}"

    @property
    def cores(self) -> int:
        """How many processor cores this process may use."""
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """The devices that a configuration's `device` means here, several only when they are GPUs, and why it is those."""

    devices: tuple[Device, ...]
    reason: str

    @property
    def device(self) -> Device:
        """The first of them."""
        return self.devices[0]

    def __str__(self) -> str:
        return ", ".join(map(str, self.devices))


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """What `doctor` says of a device: usable, or the reason why not."""

    name: str
    usable: bool
    detail: str


_ALLOWED = re.compile(r"auto|cpu|cuda(:\d+)?")


def choose_device(name: str) -> DeviceChoice:
    """The devices that a configuration's `device` means: `cuda` all GPUs that can be used, `cuda:N` that one, `auto`
    the first that can be used, else the CPU.

    Raises DeviceUnavailable when it is unknown or cannot be used here, with the reason. No GPU library is imported.
    """
    if not _ALLOWED.fullmatch(name):
        raise DeviceUnavailable(f"device {name!r} is unknown: use auto, cpu, cuda or cuda:N")
    if name == "cpu":
        return DeviceChoice((Device(),), "the configuration says so")
    number = name.partition(":")[2]
    indices = [int(number)] if number else [gpu.index for gpu in driver_facts().gpus] or [0]
    reasons = {index: why_not(index) for index in indices}
    usable = [index for index, reason in reasons.items() if reason is None]
    if usable:
        return _choice_of_gpus(usable if name == "cuda" else usable[:1], reasons=reasons if name == "cuda" else {})
    if name == "auto":
        return DeviceChoice((Device(),), f"no GPU: {reasons[indices[0]]}")
    raise DeviceUnavailable(f"device {name!r} cannot be used: {reasons[indices[0]]}; use device: cpu or auto")


def _choice_of_gpus(indices: Sequence[int], *, reasons: Mapping[int, str | None]) -> DeviceChoice:
    facts = driver_facts().gpus
    notes = [f"without cuda:{index}: {reason}" for index, reason in reasons.items() if reason is not None]
    if (reason := reason_against_onnxruntime()) is not None:
        notes.append(f"without ONNX Runtime on GPUs: {reason}")
    devices = tuple(Device(DeviceKind.CUDA, index) for index in indices)
    return DeviceChoice(devices, "; ".join([*(str(facts[index]) for index in indices), *notes]))


def resolve_device(name: str) -> Device:
    """The device that `choose_device` chooses; of several GPUs the first."""
    return choose_device(name).device


def survey() -> list[DeviceReport]:
    """Every device, usable or not."""
    cpu = DeviceReport("cpu", usable=True, detail=f"{Device().cores} cores, {platform.machine()}")
    facts = driver_facts()
    if facts.reason is not None:
        return [cpu, DeviceReport("cuda", usable=False, detail=facts.reason)]
    found = [(gpu, why_not(gpu.index)) for gpu in facts.gpus]
    return [cpu, *(DeviceReport(f"cuda:{gpu.index}", usable=not why, detail=why or str(gpu)) for gpu, why in found)]


@dataclass(frozen=True, slots=True)
class DeviceInUse:
    """The devices of a run, why it is those, and the open GPUs when they are such, which the run holds until `let_go`.

    There is one device, or there are several GPUs.
    """

    devices: tuple[Device, ...] = (Device(),)
    reason: str = ""
    gpus: tuple[CudaDevice, ...] = ()

    def __str__(self) -> str:
        return ", ".join(map(str, self.devices))

    def let_go(self) -> None:
        """The run is over."""
        for gpu in self.gpus:
            gpu.let_go()


def take_device(name: str, *, given: Sequence[CudaDevice] = ()) -> DeviceInUse:
    """The devices that a configuration's `device` means; `given` go before GPUs that would have to be opened.

    Raises DeviceUnavailable, ConfigurationError when one GPU is given twice, or CudaError when none opens.
    """
    if given and name != "cpu":
        return _take_given(tuple(given))
    choice = choose_device(name)
    if choice.device.kind is DeviceKind.CPU:
        return DeviceInUse(choice.devices, choice.reason)
    return _open(choice)


def _take_given(given: tuple[CudaDevice, ...]) -> DeviceInUse:
    devices = tuple(Device(DeviceKind.CUDA, gpu.index) for gpu in given)
    twice = next((device for device in devices if devices.count(device) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"gpu: {twice} is given twice: give each GPU once")
    for gpu in given:
        gpu.hold()
    return DeviceInUse(devices, f"given by the program: {', '.join(gpu.name for gpu in given)}", given)


def _open(choice: DeviceChoice) -> DeviceInUse:
    """All that open; those that do not are left out, and told in the reason, unless there is no other."""
    from sightline.devices.cuda.opening import open_cuda

    gpus: list[CudaDevice] = []
    failures: list[CudaError | DeviceUnavailable] = []
    for device in choice.devices:
        try:
            gpus.append(open_cuda(device.index))
        except (CudaError, DeviceUnavailable) as failure:
            failures.append(failure)
    if not gpus:
        raise failures[0]
    devices = tuple(Device(DeviceKind.CUDA, gpu.index) for gpu in gpus)
    shared = [f"{gpu} works in pycuda's context" for gpu in gpus if gpu.pycuda_context is not None]
    return DeviceInUse(devices, "; ".join([choice.reason, *map(str, failures), *shared]), tuple(gpus))
