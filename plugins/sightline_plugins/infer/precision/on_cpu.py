"""Measures candidates on the CPU, once for each pair of files, engine and processor."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path

from sightline_plugins.engines.opening import Installed, available_cores, choose
from sightline_plugins.engines.protocol import EngineName, open_engine
from sightline_plugins.infer.precision.choice import Candidate
from sightline_plugins.infer.precision.quantized_file import file_digest
from sightline_plugins.infer.precision.rate import interleaved_seconds
from sightline_plugins.infer.precision.verdicts import measured_once
from sightline_plugins.pixels.image_form import ImageForm

_MEASURED_SECONDS = 0.4
_EIGHT_BIT = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"})
"""Instructions that add products of bytes without overflow."""


class CpuSpeeds:
    """A `Speeds` of the engine that computes a step on the CPU, fed with images in `form`."""

    supports_half = False

    def __init__(self, engine: EngineName, *, form: ImageForm | None, warn: Callable[[str], None]) -> None:
        self._asked = engine
        self._form = form
        self._warn = warn

    @property
    def _engine(self) -> Installed:
        return choose(self._asked)

    @property
    def place(self) -> str:
        """The engine, and where."""
        return f"{self._engine} on the CPU"

    @property
    def obstacle(self) -> str | None:
        """See `Speeds.obstacle`."""
        return None if multiplies_bytes() else "this processor has no instructions for sums of bytes (VNNI)"

    def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        """See `Speeds.seconds`; what was measured before is not measured again."""
        key = {
            "measured": [(one.precision, file_digest(one.model)) for one in candidates],
            "engine": self._engine,
            "version": _version(self._engine),
            "cores": available_cores(),
            "image": self._form,
        }
        return measured_once(key, count=len(candidates), measure=lambda: self._measured(candidates))

    def _measured(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        with ExitStack() as stack:
            engines = [
                open_engine(candidate.model, engine=self._engine, image=self._form, warn=self._warn)
                for candidate in candidates
            ]
            for engine in engines:
                stack.callback(engine.close)
            return interleaved_seconds(engines, budget_seconds=_MEASURED_SECONDS)


def _version(engine: str) -> str:
    """The version of an engine's package, which has another name where it was built for GPUs."""
    for package in (engine, f"{engine}-gpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    return ""


@lru_cache(maxsize=1)
def multiplies_bytes() -> bool:
    """Whether this processor adds products of bytes without overflow; true where it does not say what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return True
    flags = {flag for line in lines if line.startswith(("flags", "Features")) for flag in line.split()}
    return not flags or not flags.isdisjoint(_EIGHT_BIT)
