"""The TensorRT library: import it, capture its log, report its progress.

A plan of TensorRT-RTX is finished on the GPU, when a context is made and when it computes a number of images for the
first time. Each of these takes seconds, unless the kernels are there already.

Both have the calls that this adapter uses: TensorRT 10 and 11, and TensorRT-RTX 1.2 and later. TensorRT compiles on the
GPU that will compute, and times its kernels there; TensorRT-RTX compiles anywhere for a compute capability that it is
told, and finishes on the GPU. Nothing of them is imported before somebody asks.
"""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from threading import Lock
from time import monotonic
from typing import Any

from sightline.devices.cuda.compatibility import reason_against_tensorrt
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.libcuda import driver_facts, extra_for_driver
from sightline.errors import DeviceUnavailable, MissingExtra
from sightline_plugins.engines.cache import Entry, ModelCache

Log = Callable[[str, str], None]
"""Takes a message's severity (`error`, `warning`, `info`, `verbose`) and its text."""
_ERRORS = ("internal_error", "error")
_MOST_REASONS = 3
_LONGEST_REASON = 240
_SIGNATURE = re.compile(r"^(\[\S+::\d+\]\s*|\(\w+\):\s*|[\w:]+:\s*(?=Error Code)|\w+\.cpp:\d+:\s*)")
_CODE = re.compile(r"^Error Code \d+: (?P<kind>[^(]*?)\s*\((?P<text>.*)\)\s*$", re.DOTALL)
_PLACE = re.compile(r"\.?\s*\bIn \w+ at \S+:\d+")
_IDLE = re.compile(r"^(--- (Begin|End) node ---|While parsing node number)")


@dataclass(slots=True, eq=False)
class CapturedLog:
    """What the library logged during one call, in the calling thread or in its own threads."""

    log: Log | None
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def take(self, severity: str, text: str) -> None:
        """Keep a message, and pass it on."""
        if severity in _ERRORS:
            self.errors.append(text)
        elif severity == "warning":
            self.warnings.append(text)
        if self.log is not None:
            self.log("error" if severity in _ERRORS else severity, text)

    @property
    def reason(self) -> str:
        """The first errors in one line, without places in the library's sources; warnings where there are none."""
        said = [gist(text) for text in self.errors or self.warnings if not _IDLE.match(_bare(text))]
        kept = list(dict.fromkeys(text for text in said if text))[:_MOST_REASONS]
        return "; ".join(kept) or "it gives no reason"


class Messages:
    """The one logger of a library: TensorRT keeps the first that it is given for the whole process. Any thread."""

    def __init__(self, module: Any) -> None:
        self._lock = threading.Lock()
        self._listening: list[tuple[int, CapturedLog]] = []
        self.logger = _logger(module, self._hear)

    @contextmanager
    def listening(self, log: Log | None = None) -> Iterator[CapturedLog]:
        """Capture what is logged while the block runs. Every listener hears the library's own threads."""
        entry = threading.get_ident(), CapturedLog(log)
        with self._lock:
            self._listening.append(entry)
        try:
            yield entry[1]
        finally:
            with self._lock:
                self._listening.remove(entry)

    def _hear(self, severity: str, text: str) -> None:
        with self._lock:
            own = [heard for thread, heard in self._listening if thread == threading.get_ident()]
            listening = own[-1:] or [heard for _, heard in self._listening]
        for heard in listening:
            heard.take(severity, text)


def gist(text: str) -> str:
    """A message without function, file and line of the library's sources, cut where it is very long."""
    bare = _bare(text)
    coded = _CODE.match(bare)
    if coded is not None:
        kind, inner = coded["kind"], _PLACE.sub("", coded["text"]).strip()
        if inner.startswith("(") and inner.endswith(")"):
            inner = inner[1:-1]
        bare = inner if kind in ("", "Internal Error", "API Usage Error") else f"{kind}: {inner}"
    told = " ".join(_PLACE.sub("", bare).split()).removesuffix(".")
    return told if len(told) <= _LONGEST_REASON else f"{told[:_LONGEST_REASON].rstrip()}..."


def _bare(text: str) -> str:
    bare, before = text.strip(), ""
    while bare != before:
        before, bare = bare, _SIGNATURE.sub("", bare, count=1)
    return bare


def _logger(module: Any, hear: Log) -> Any:
    """An object of the library's own class of loggers; it is made here because the class is known only now."""

    def begin(self: Any) -> None:
        module.ILogger.__init__(self)

    def log(self: Any, severity: Any, text: str) -> None:
        del self
        hear(severity.name.lower(), text)

    return type("Logger", (module.ILogger,), {"__init__": begin, "log": log})()


Tell = Callable[[str], None]
EVERY_SECONDS = 5.0
"""Lines come at most this often, apart from the first and the last."""


class Progress:
    """Tells what the compiler does, with the time it took. Its threads call it, in any order.

    Where `is_stopped` says so, the compiler gives up at its next step.
    """

    def __init__(self, tell: Tell, *, is_stopped: Callable[[], bool], every_seconds: float = EVERY_SECONDS) -> None:
        self._tell = tell
        self._is_stopped = is_stopped
        self._every_seconds = every_seconds
        self._lock = Lock()
        self._steps: dict[str, int] = {}
        self._began = self._told = monotonic()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return monotonic() - self._began

    def phase_start(self, phase: str, parent: str | None, steps: int) -> None:
        """A phase of so many steps begins."""
        del parent
        with self._lock:
            self._steps[phase] = steps

    def step_complete(self, phase: str, step: int) -> bool:
        """A step is done; whether to go on."""
        with self._lock:
            is_due = monotonic() - self._told >= self._every_seconds
            if is_due:
                self._told = monotonic()
            steps = self._steps.get(phase, step + 1)
        if is_due:
            self._tell(f"{phase}: step {step + 1} of {steps}, after {self.seconds:.0f} s")
        return not self._is_stopped()

    def phase_finish(self, phase: str) -> None:
        """A phase is over."""
        with self._lock:
            self._steps.pop(phase, None)

    def monitor(self, module: Any) -> Any:
        """It as the library's own class of monitors; None where the library has none. Keep both until it is done."""
        if not hasattr(module, "IProgressMonitor"):
            return None

        def begin(monitor: Any) -> None:
            module.IProgressMonitor.__init__(monitor)

        def phase_start(_: Any, phase: str, parent: str | None, steps: int) -> None:
            self.phase_start(phase, parent, steps)

        def step_complete(_: Any, phase: str, step: int) -> bool:
            return self.step_complete(phase, step)

        def phase_finish(_: Any, phase: str) -> None:
            self.phase_finish(phase)

        verbs = {"phase_start": phase_start, "step_complete": step_complete, "phase_finish": phase_finish}
        return type("Monitor", (module.IProgressMonitor,), {"__init__": begin, **verbs})()


class KeptKernels:
    """Where the kernels of one plan are kept, under a key of their own."""

    def __init__(self, cache: ModelCache, key: Mapping[str, Any]) -> None:
        self._cache = cache
        self._key = {"kernels of": key}
        self._known: bytes | None = None

    def read(self) -> bytes | None:
        """What was kept; None when nothing was. The library finds out whether it is of use."""
        entry = self._cache.find(self._key)
        self._known = None if entry is None else entry.content
        return self._known

    def keep(self, content: bytes) -> None:
        """Keep them, if they are others than before."""
        if content and content != self._known:
            self._cache.keep(self._key, Entry(content, {}))
            self._known = content


PACKAGES = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}
"""What is imported, the preferred one first, and what it is called."""
INSTEAD = "use engine: onnxruntime"
"""What to do where it does not do."""
_TARGET = re.compile(r"SM(\d+)(\d)")


class TensorRt:
    """The library with its one logger. From any thread."""

    def __init__(self, module: Any, *, title: str) -> None:
        self.module = module
        self.title = title
        """`TensorRT` or `TensorRT-RTX`."""
        self.messages = Messages(module)

    def __str__(self) -> str:
        return f"{self.title} {self.version}"

    @property
    def version(self) -> str:
        """Its version; plans of another one are of no use."""
        return str(self.module.__version__)

    @property
    def targets(self) -> Sequence[tuple[int, int]]:
        """The compute capabilities that it compiles for without their GPU; none where it compiles on the GPU itself."""
        names = getattr(getattr(self.module, "ComputeCapability", None), "__members__", {})
        found = (_TARGET.fullmatch(name) for name in names)
        return sorted((int(one[1]), int(one[2])) for one in found if one is not None)

    @property
    def compiles_ahead(self) -> bool:
        """Return whether it compiles for any compute capability that it is given."""
        return bool(self.targets)

    @property
    def target_text(self) -> str:
        """They, for messages: `7.5, 8.6`."""
        return ", ".join("{}.{}".format(*target) for target in self.targets)

    def listening(self, log: Log | None = None) -> AbstractContextManager[CapturedLog]:
        """What it says while the block runs."""
        return self.messages.listening(log)


def library_for(gpu: CudaDevice) -> TensorRt:
    """Return the library for a GPU. Raises MissingExtra without it, DeviceUnavailable where it does not load, or does
    not support the GPU.
    """
    reason = driver_facts().reason or reason_against_tensorrt()  # importing it without a driver ends the process
    if reason is not None:
        raise DeviceUnavailable(f"engine tensorrt cannot be used: {reason}")
    return supporting(gpu, installed())


def supporting(gpu: CudaDevice, library: TensorRt) -> TensorRt:
    """Return the library if it supports the GPU. Raises DeviceUnavailable."""
    if library.compiles_ahead and gpu.compute_capability not in library.targets:
        found = "{} ({}) has {}.{}".format(gpu, gpu.name, *gpu.compute_capability)
        raise DeviceUnavailable(f"{library} supports compute capability {library.target_text}, {found}: {INSTEAD}")
    return library


def is_installed() -> bool:
    """Whether there is a package to import; whether it works is another matter."""
    return any(importlib.util.find_spec(package) is not None for package in PACKAGES)


@lru_cache(maxsize=1)
def installed() -> TensorRt:
    """TensorRT, else TensorRT-RTX. Raises MissingExtra without both, DeviceUnavailable where none loads."""
    reasons = list[str]()
    for package, title in PACKAGES.items():
        if importlib.util.find_spec(package) is None:
            continue
        try:
            return TensorRt(import_module(package), title=title)
        except (ImportError, OSError, RuntimeError) as error:
            reasons.append(f"{title} cannot be imported: {' '.join(str(error).split())}")
    if reasons:
        raise DeviceUnavailable(f"engine tensorrt cannot be used: {'; '.join(reasons)}; {INSTEAD}")
    raise MissingExtra("tensorrt", extra=extra_for_driver("tensorrt"), purpose="engine tensorrt")
