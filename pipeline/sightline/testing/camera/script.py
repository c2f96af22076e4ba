"""What happens to a fake camera, and when."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pydantic import ConfigDict, Field, InstanceOf, model_validator

from sightline.testing.camera.clip import Clip
from sightline.testing.camera.faults import Faults, Seconds

_OWN = frozenset({"at", "lasts", "camera"})


class Step(Faults):
    """One thing, or several, that happen at once: any attribute of `Faults`, and what is below.

    `Step(at=10, stall=True, lasts=8)` stalls after ten seconds for eight. Without `lasts` it stays so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: Seconds
    """When, counted from the start of the camera."""
    lasts: Seconds | None = None
    """After this long everything is again as it was before."""
    camera: str | None = None
    """Which camera of several; all when it is not said."""
    kill: bool = False
    """The server is gone as if killed, with all its cameras; when `lasts` is over it listens again on the same port."""
    swap: InstanceOf[Clip] | None = None
    """Another clip: other size, rate or codec."""
    fps: float | None = Field(default=None, gt=0, le=10_000)
    """The same clip at another rate."""

    @model_validator(mode="after")
    def _does_something(self) -> Step:
        if not self.model_fields_set - _OWN:
            raise ValueError("nothing happens in this step: name a fault, kill, swap or fps")
        return self

    def faults(self) -> Iterator[tuple[str, object]]:
        """The faults that it sets, and to what."""
        for name in sorted(self.model_fields_set & Faults.model_fields.keys()):
            yield name, getattr(self, name)

    def text(self) -> str:
        """What happens, for people."""
        parts = [f"{name} {value}" for name, value in self.faults()]
        parts += ["killed"] if self.kill else []
        parts += [f"another clip ({self.swap.codec}, {self.swap.fps:.3g} fps)"] if self.swap is not None else []
        parts += [f"{self.fps:g} fps"] if self.fps is not None else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Script:
    """Steps in the order of their times; they begin again after `repeat_seconds`."""

    steps: tuple[Step, ...]
    repeat_seconds: float | None

    @classmethod
    def of(cls, steps: Sequence[Step], *, repeat_seconds: float | None, cameras: Collection[str]) -> Script:
        """Steps in any order for those cameras. Raises ValueError when they do not fit."""
        for step in steps:
            if step.camera is not None and step.camera not in cameras:
                raise ValueError(f"the script names a camera {step.camera!r}; cameras: {', '.join(cameras)}")
        last = max((step.at + (step.lasts or 0) for step in steps), default=0.0)
        if repeat_seconds is not None and repeat_seconds < max(last, 0.1):
            raise ValueError(f"the script takes {last:g} s and cannot begin again after {repeat_seconds:g} s")
        return cls(tuple(sorted(steps, key=lambda step: step.at)), repeat_seconds)
