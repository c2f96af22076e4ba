"""Finding cameras on the network: what a package that can do it offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sightline.graph.networks import Networks
from sightline.installed import installed

DISCOVERIES = "sightline.discovery"
"""Entry points of ways to find cameras: `onvif` = module:function that returns a `CameraDiscovery`."""


@dataclass(frozen=True, slots=True)
class FoundCamera:
    """A camera that has answered: its address, what it says of itself, and where it can be asked for its streams."""

    address: str
    name: str
    hardware: str
    service: str


@dataclass(frozen=True, slots=True)
class FoundStream:
    """A stream of a camera, as the camera describes it; `uri` has no credentials."""

    name: str
    uri: str
    codec: str | None = None
    size_wh: tuple[int, int] | None = None
    fps: float | None = None


class CameraDiscovery(Protocol):
    """A way to find cameras. Calls wait; they may be made from any thread."""

    def interfaces(self) -> dict[str, str]:
        """The addresses of this machine that can be asked from, by the names of their network interfaces."""
        ...

    def discover(self, addresses: Sequence[str], *, networks: Networks, seconds: float) -> list[FoundCamera]:
        """Ask all cameras of the networks that these addresses of ours belong to, and return those in `networks` that
        answer within that time, 64 at most.
        """
        ...

    def streams(self, service: str, *, user: str, password: str, networks: Networks) -> list[FoundStream]:
        """Ask a camera for its streams; nothing outside `networks` is connected to.

        Raises StreamRefused (with `credentials`), StreamLost when it cannot be reached, and StreamUnreadable.
        """
        ...


def camera_discovery() -> CameraDiscovery | None:
    """Return the installed way to find cameras; None when no package offers one."""
    found = next(iter(installed(DISCOVERIES)), None)
    return None if found is None else found.load()()
