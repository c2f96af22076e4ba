"""The targets by name; one is imported only where it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from tools.fuzz.targets.target import Target

TARGETS: Mapping[str, str] = {
    "media": "media:MediaTarget",
    "rtsp": "rtsp:RtspTarget",
    "config": "checked:ConfigurationTarget",
    "card": "checked:CardTarget",
    "model": "checked:ModelTarget",
}
_ON_PURPOSE = {"trap": "trap:TrapTarget"}


def target_of(name: str, folder: Path, *, shared: Path | None) -> Target:
    """Make that target."""
    module, _, kind = {**TARGETS, **_ON_PURPOSE}[name].partition(":")
    make: Callable[..., Target] = getattr(import_module(f"tools.fuzz.targets.{module}"), kind)
    return make(folder, shared=shared)
