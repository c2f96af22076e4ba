"""Which devices can be used on this machine, and the reason for each that can not."""

from __future__ import annotations

import os
import platform
import re
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
    """The device that a configuration's `device` means here, and why it is that one."""

    device: Device
    reason: str


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """What `doctor` says of a device: usable, or the reason why not."""

    name: str
    usable: bool
    detail: str


_ALLOWED = re.compile(r"auto|cpu|cuda(:\d+)?")


def choose_device(name: str) -> DeviceChoice:
    """The device that a configuration's `device` means; `auto` is the first GPU that can be used, else the CPU.

    Raises DeviceUnavailable when it is unknown or can not be used here, with the reason. No GPU library is imported.
    """
    if not _ALLOWED.fullmatch(name):
        raise DeviceUnavailable(f"device {name!r} is unknown: use auto, cpu or cuda:N")
    if name == "cpu":
        return DeviceChoice(Device(), "the configuration says so")
    index = int(name.partition(":")[2] or 0)
    reason = why_not(index)
    if reason is None:
        return DeviceChoice(Device(DeviceKind.CUDA, index), str(driver_facts().gpus[index]))
    if name == "auto":
        return DeviceChoice(Device(), f"no GPU: {reason}")
    raise DeviceUnavailable(f"device {name!r} can not be used: {reason}; use device: cpu or auto")


def resolve_device(name: str) -> Device:
    """The device that `choose_device` chooses."""
    return choose_device(name).device


def survey() -> list[DeviceReport]:
    """Every device, usable or not."""
    cpu = DeviceReport("cpu", usable=True, detail=f"{Device().cores} cores, {platform.machine()}")
    facts = driver_facts()
    if facts.reason is not None:
        return [cpu, DeviceReport("cuda", usable=False, detail=facts.reason)]
    found = [(gpu, why_not(gpu.index)) for gpu in facts.gpus]
    return [cpu, *(DeviceReport(f"cuda:{gpu.index}", usable=not why, detail=why or str(gpu)) for gpu, why in found)]
