"""Where operators run: what devices this machine has, and why it lacks others."""

from sightline.devices.discovery import Device, DeviceKind, resolve_device, survey

__all__ = ["Device", "DeviceKind", "resolve_device", "survey"]
