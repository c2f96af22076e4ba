"""The devices that a run uses: chosen, opened, and let go of when the run is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightline.devices.discovery import Device, DeviceChoice, DeviceKind, choose_device
from sightline.errors import ConfigurationError, DeviceUnavailable, GpuError

if TYPE_CHECKING:
    from sightline.devices.gpu.gpu import Gpu


@dataclass(frozen=True, slots=True)
class DeviceInUse:
    """The devices of a run, why it is those, and the open GPUs when they are such, which the run holds until `let_go`.

    There is one device, or there are several GPUs.
    """

    devices: tuple[Device, ...] = (Device(),)
    reason: str = ""
    gpus: tuple[Gpu, ...] = ()

    def __str__(self) -> str:
        return ", ".join(map(str, self.devices))

    def let_go(self) -> None:
        """The run is over."""
        for gpu in self.gpus:
            gpu.let_go()


def take_device(name: str, *, given: Sequence[Gpu] = ()) -> DeviceInUse:
    """The devices that a configuration's `device` means; `given` go before GPUs that would have to be opened.

    Raises DeviceUnavailable, ConfigurationError when one GPU is given twice, or GpuError when none opens.
    """
    if given and name != "cpu":
        return _take_given(tuple(given))
    choice = choose_device(name)
    if choice.device.kind is DeviceKind.CPU:
        return DeviceInUse(choice.devices, choice.reason)
    return _open(choice)


def _take_given(given: tuple[Gpu, ...]) -> DeviceInUse:
    devices = tuple(Device(DeviceKind.CUDA, gpu.index) for gpu in given)
    twice = next((device for device in devices if devices.count(device) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"gpu: {twice} is given twice: give each GPU once")
    for gpu in given:
        gpu.hold()
    return DeviceInUse(devices, f"given by the program: {', '.join(gpu.name for gpu in given)}", given)


def _open(choice: DeviceChoice) -> DeviceInUse:
    """All that open; those that do not are left out, and told in the reason, unless there is no other."""
    from sightline.devices.gpu.opening import open_gpu

    gpus: list[Gpu] = []
    failures: list[GpuError | DeviceUnavailable] = []
    for device in choice.devices:
        try:
            gpus.append(open_gpu(device.index))
        except (GpuError, DeviceUnavailable) as failure:
            failures.append(failure)
    if not gpus:
        raise failures[0]
    devices = tuple(Device(DeviceKind.CUDA, gpu.index) for gpu in gpus)
    return DeviceInUse(devices, "; ".join([choice.reason, *map(str, failures)]), tuple(gpus))
