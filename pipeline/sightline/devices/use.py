"""The device that a run uses: chosen, opened, and let go of when the run is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sightline.devices.discovery import Device, DeviceKind, choose_device

if TYPE_CHECKING:
    from sightline.devices.gpu.gpu import Gpu


@dataclass(frozen=True, slots=True)
class DeviceInUse:
    """A device, why it is that one, and the open GPU when it is one, which the run holds until `let_go`."""

    device: Device = field(default_factory=Device)
    reason: str = ""
    gpu: Gpu | None = None

    def let_go(self) -> None:
        """The run is over."""
        if self.gpu is not None:
            self.gpu.let_go()


def take_device(name: str, *, given: Gpu | None = None) -> DeviceInUse:
    """The device that a configuration's `device` means; `given` goes before GPUs that would have to be opened.

    Raises DeviceUnavailable, or GpuError when a GPU does not open.
    """
    if given is not None and name != "cpu":
        given.hold()
        return DeviceInUse(Device(DeviceKind.CUDA, given.index), f"given by the program: {given.name}", given)
    choice = choose_device(name)
    if choice.device.kind is DeviceKind.CPU:
        return DeviceInUse(choice.device, choice.reason)
    from sightline.devices.gpu.opening import open_gpu

    return DeviceInUse(choice.device, choice.reason, open_gpu(choice.device.index))
