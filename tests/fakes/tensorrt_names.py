"""Names and numbers of TensorRT, as its double has them, and how it writes plans."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum, IntEnum, IntFlag
from threading import Event

BEGINNING = b"plan of a double\n"
"""How every plan begins."""
_PLACE = "In validate at /_src/runtime/dispatch/runtime.cpp:780"


class Severity(Enum):
    """How bad a message is."""

    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


class ILogger:
    """What messages go to; the library's user makes a class of it."""

    def log(self, severity: Severity, msg: str) -> None:
        """Take a message."""
        raise NotImplementedError


class IProgressMonitor:
    """What is told of the progress; the library's user makes a class of it."""

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """A phase begins."""
        raise NotImplementedError

    def step_complete(self, phase_name: str, step: int) -> bool:
        """A step is done."""
        raise NotImplementedError

    def phase_finish(self, phase_name: str) -> None:
        """A phase is over."""
        raise NotImplementedError


class NetworkDefinitionCreationFlag(IntEnum):
    """How networks are made."""

    STRONGLY_TYPED = 1


class BuilderFlag(Enum):
    """What both libraries may be told; there is no flag for a precision."""

    TF32 = 7


class RtxBuilderFlag(Enum):
    """What TensorRT-RTX may be told."""

    TF32 = 7
    REQUIRE_USER_ALLOCATION = 24


class MemoryPoolType(Enum):
    """Kinds of memory."""

    WORKSPACE = 0


class ComputeCapability(Enum):
    """What TensorRT-RTX compiles for."""

    NONE = 0
    CURRENT = 1
    SM86 = 86
    SM89 = 89


class ExecutionContextAllocationStrategy(Enum):
    """Whose the scratch memory of a context is."""

    STATIC = 0
    ON_PROFILE_CHANGE = 1
    USER_MANAGED = 2


class DynamicShapesKernelSpecializationStrategy(Enum):
    """When TensorRT-RTX compiles kernels for a size."""

    LAZY = 0
    EAGER = 1
    NONE = 2


class EngineInvalidityDiagnostics(IntFlag):
    """Why TensorRT-RTX does not take a plan."""

    VERSION_MISMATCH = 1
    UNSUPPORTED_CC = 2
    MALFORMED_ENGINE = 32


class TensorIOMode(Enum):
    """What a tensor is."""

    NONE = 0
    INPUT = 1
    OUTPUT = 2


class TensorLocation(Enum):
    """Where a tensor lies."""

    DEVICE = 0
    HOST = 1


class DataType(Enum):
    """Element types, with NumPy's names."""

    FLOAT = "float32"
    HALF = "float16"
    INT8 = "int8"
    UINT8 = "uint8"
    INT32 = "int32"
    INT64 = "int64"
    BOOL = "bool"


@dataclass(frozen=True, slots=True)
class TensorRtFaults:
    """What goes wrong: operators that the parser does not take, runs that fail by their number from 0 over all
    contexts, contexts that cannot be captured, tensors that must lie in host memory. Compiling lasts until `may_build`
    is set, or it is stopped.
    """

    untaken: frozenset[str] = frozenset()
    fail_at: frozenset[int] = frozenset()
    is_uncapturable: bool = False
    on_host: frozenset[str] = frozenset()
    may_build: Event | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled model: who made it, for which GPU, and how many rows of each input it takes."""

    library: str
    version: str
    target: str
    profile: Mapping[str, Sequence[Sequence[int]]]
    content: bytes

    def packed(self) -> bytes:
        """As the library writes it."""
        header = {name: value for name, value in asdict(self).items() if name != "content"}
        return BEGINNING + json.dumps(header).encode() + b"\n" + self.content


def read_plan(packed: bytes) -> Plan | None:
    """What the library wrote; None for anything else."""
    if not packed.startswith(BEGINNING):
        return None
    header, _, content = packed.removeprefix(BEGINNING).partition(b"\n")
    return Plan(**json.loads(header), content=content)


def complaint(text: str, *, doing: str = "IRuntime::deserializeCudaEngine", kind: str = "API Usage Error") -> str:
    """A message of the library's, with the places in its sources that it names."""
    return f"{doing}: Error Code 3: {kind} ({text} {_PLACE})"
