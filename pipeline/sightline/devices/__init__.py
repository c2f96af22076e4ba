"""Where operators run: what devices this machine has, and why it lacks others."""

from sightline.devices.discovery import Device, DeviceChoice, DeviceKind, choose_device, resolve_device, survey

__all__ = ["Device", "DeviceChoice", "DeviceKind", "choose_device", "resolve_device", "survey"]
