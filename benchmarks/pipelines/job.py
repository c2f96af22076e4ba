"""What every contestant has to do, and what it says about having done it."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path


class PartMissing(Exception):
    """What a contestant needs is not installed; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Job:
    """Decode every frame of a clip on `streams` streams, detect, track, and write `out/{stream}.jsonl`.

    Each stream reads the clip `passes` times, one after another.
    """

    clip: Path
    model: Path
    labels: Path
    out: Path
    streams: int
    passes: int
    confidence: float = 0.4

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the streams."""
        return tuple(f"stream{number}" for number in range(self.streams))

    def path(self, name: str) -> Path:
        """The file that a stream's lines go to."""
        return self.out / f"{name}.jsonl"

    def label_names(self) -> list[str]:
        """Class names by number."""
        return self.labels.read_text().split("\n")

    def to_json(self) -> str:
        """The job as text; `from_json` reads it."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The job that `to_json` wrote."""
        plain = json.loads(text)
        return cls(**{**plain, **{name: Path(plain[name]) for name in ("clip", "model", "labels", "out")}})


@dataclass(frozen=True, slots=True)
class Outcome:
    """Wall and CPU seconds of the steady job: models loaded and code compiled before, files opened within."""

    wall_seconds: float
    cpu_seconds: float
    details: Mapping[str, float] = field(default_factory=dict)


class Window:
    """The time between two moments, of this process and of its children that have ended."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), _cpu_seconds()

    def close(self) -> Outcome:
        """What passed since it was made."""
        return Outcome(time.perf_counter() - self._wall, _cpu_seconds() - self._cpu)


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
