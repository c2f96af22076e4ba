"""Which devices can be used on this machine, and the reason for each that cannot."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sightline.devices.gpu.availability import why_not
from sightline.devices.gpu.libcuda import driver_facts
from sightline.errors import DeviceUnavailable


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
    left_out = [f"without cuda:{index}: {reason}" for index, reason in reasons.items() if reason is not None]
    devices = tuple(Device(DeviceKind.CUDA, index) for index in indices)
    return DeviceChoice(devices, "; ".join([*(str(facts[index]) for index in indices), *left_out]))


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
