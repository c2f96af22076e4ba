"""Stands for TensorRT and TensorRT-RTX on the double of a GPU: the same calls, and the same traps.

The traps: there is one logger, the first; a refusal is told to it, and the call returns None or False; plans are for
one version and one GPU; contexts need addresses, sizes within the profile and scratch memory, which is used by one
stream alone; a context's first run for a size allocates, so that it cannot be captured; and nothing is computed before
the stream comes to it. Plans hold the ONNX file, and ONNX Runtime computes it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import DriverError
from sightline_plugins.engines import tensorrt_library
from sightline_plugins.engines.tensorrt_library import TensorRt
from tests.fakes import CudaMisuse, FakeCudaDriver
from tests.fakes import tensorrt_names as names
from tests.fakes.seams import Seam
from tests.fakes.tensorrt_builder import Builder, Network, OnnxParser
from tests.fakes.tensorrt_runtime import Context, RtxContext, RtxRuntime, Runtime

# ruff: noqa: N802  the names are TensorRT's


_NO_FAULTS = names.TensorRtFaults()


class FakeTensorRt:
    """Stands for the module tensorrt, on one GPU. `calls` are what was called, in order."""

    title = "TensorRT"
    ILogger = names.ILogger
    IProgressMonitor = names.IProgressMonitor
    NetworkDefinitionCreationFlag = names.NetworkDefinitionCreationFlag
    BuilderFlag: Any = names.BuilderFlag
    MemoryPoolType = names.MemoryPoolType
    ExecutionContextAllocationStrategy = names.ExecutionContextAllocationStrategy
    TensorIOMode = names.TensorIOMode
    context_class: type[Context] = Context

    def __init__(self, gpu: CudaDevice, *, version: str, faults: names.TensorRtFaults) -> None:
        self.__version__ = version
        self.faults = faults
        self.calls: list[str] = []
        self.loggers: list[names.ILogger] = []
        with gpu.guard("standing in for TensorRT") as driver:
            assert isinstance(driver, FakeCudaDriver), "the double of TensorRT stands on the double of a GPU"
            self._driver = driver
        self._gpu = weakref.ref(gpu)
        self._runs = 0

    @property
    def here(self) -> str:
        """What plans for this GPU are for."""
        major, minor = self._driver.compute_capability
        return f"SM{major}{minor}"

    def Builder(self, logger: names.ILogger) -> Builder:
        """A compiler."""
        self._hear(logger)
        return Builder(self)

    def OnnxParser(self, network: Network, logger: names.ILogger) -> OnnxParser:
        """A reader of ONNX files."""
        self._hear(logger)
        return OnnxParser(self, network)

    def Runtime(self, logger: names.ILogger) -> Runtime:
        """A loader of plans."""
        self._hear(logger)
        return Runtime(self)

    def note(self, call: str) -> None:
        """Note what was called."""
        self.calls.append(call)

    def complain(self, text: str) -> None:
        """Tell the logger of an error."""
        self.loggers[0].log(names.Severity.ERROR, text)

    def check_context(self, call: str) -> None:
        """Note a call that needs the GPU's context. Raises CudaMisuse where it is not current."""
        self.note(call)
        with suppress(DriverError):
            self._driver.free_memory_bytes()

    def misuse(self, text: str) -> CudaMisuse:
        """What to raise where something was done that the real one does not forgive; it stays with the driver, too."""
        self._driver.misuses.append(CudaMisuse(text))
        return self._driver.misuses[-1]

    def fails_now(self) -> bool:
        """Whether this run is to fail."""
        number, self._runs = self._runs, self._runs + 1
        return number in self.faults.fail_at

    def check_scratch(self, used_on: dict[int, int], address: int, stream: int) -> None:
        """Raise CudaMisuse when contexts of an engine use scratch memory on two streams; `used_on` is what it noted."""
        if used_on.setdefault(address, stream) != stream:
            raise self.misuse("scratch memory is used on two streams")

    def does(self, call: Callable[[], object]) -> bool:
        """Make a call of the driver; False, and the logger told, when that failed."""
        try:
            call()
        except DriverError as error:
            self.complain(names.complaint(str(error), doing="IExecutionContext::enqueueV3", kind="Cuda Runtime"))
            return False
        return True

    def allocate_and_free(self) -> bool:
        """What the first run for a size does beside the stream."""
        return self.does(lambda: self._driver.free(self._driver.allocate(256)))

    def queue(self, stream: int, work: Callable[[], None], *, uses: Sequence[tuple[int, int]]) -> bool:
        """Queue a run."""
        return self.does(lambda: self._driver.queue(stream, work, uses=uses, what=self.title))

    def _hear(self, logger: names.ILogger) -> None:
        assert isinstance(logger, names.ILogger)
        if not self.loggers:
            self.loggers.append(logger)
        elif logger is not self.loggers[0]:
            text = "The logger passed into createInferBuilder differs from one already registered"
            self.loggers[0].log(names.Severity.WARNING, text)


class FakeTensorRtRtx(FakeTensorRt):
    """Stands for the module tensorrt_rtx, on one GPU: it compiles for GPUs that are not there."""

    title = "TensorRT-RTX"
    BuilderFlag = names.RtxBuilderFlag
    ComputeCapability = names.ComputeCapability
    DynamicShapesKernelSpecializationStrategy = names.DynamicShapesKernelSpecializationStrategy
    EngineInvalidityDiagnostics = names.EngineInvalidityDiagnostics
    context_class = RtxContext

    def Runtime(self, logger: names.ILogger) -> Runtime:
        """A loader of plans."""
        self._hear(logger)
        return RtxRuntime(self)


_LIBRARY = Seam(tensorrt_library, "library_for")


def fake_tensorrt(
    gpu: CudaDevice, *, rtx: bool = True, version: str = "1.7.1.0", faults: names.TensorRtFaults = _NO_FAULTS
) -> FakeTensorRt:
    """Let a fake of TensorRT-RTX, or of TensorRT, take its place on a GPU, which is a fake itself."""
    made = (FakeTensorRtRtx if rtx else FakeTensorRt)(gpu, version=version, faults=faults)
    library = TensorRt(made, title=made.title)
    _LIBRARY.install(gpu, lambda gpu: tensorrt_library.supporting(gpu, library))
    return made
