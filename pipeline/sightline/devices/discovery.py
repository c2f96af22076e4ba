"""Which devices can be used on this machine, and the reason for each that can not."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from dataclasses import dataclass
from enum import StrEnum

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
class DeviceReport:
    """What `doctor` says of a device: usable, or the reason why not."""

    name: str
    usable: bool
    detail: str


_ALLOWED = re.compile(r"auto|cpu|cuda(:\d+)?")


def resolve_device(name: str) -> Device:
    """The device that a configuration's `device` means; `auto` picks the best that this version can use.

    Raises DeviceUnavailable when it is unknown or can not be used here, with the reason.
    """
    if not _ALLOWED.fullmatch(name):
        raise DeviceUnavailable(f"device {name!r} is unknown: use auto, cpu or cuda:N")
    if name in ("auto", "cpu"):
        return Device()
    raise DeviceUnavailable(f"device {name!r} can not be used: {cuda_report().detail}; use device: cpu or auto")


def cuda_report() -> DeviceReport:
    """Whether there is an NVIDIA driver, and what this version does with it."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return DeviceReport("cuda", usable=False, detail="no NVIDIA driver on this machine (libcuda.so.1 is missing)")
    return DeviceReport(
        "cuda", usable=False, detail="a driver is present, but this version of Sightline runs on the CPU only"
    )


def survey() -> list[DeviceReport]:
    """Every kind of device, usable or not."""
    cores = Device().cores
    return [DeviceReport("cpu", usable=True, detail=f"{cores} cores, {platform.machine()}"), cuda_report()]
