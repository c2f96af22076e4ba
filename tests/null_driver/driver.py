"""The real `CudaDriver` over the null driver, with what tests ask of the fake."""

from __future__ import annotations

from sightline.devices.cuda.cuda_driver import CudaDriver
from sightline.devices.cuda.driver import Harm, KernelSource
from tests.fakes.cuda_driver import Verb
from tests.fakes.host_build import load_host_build
from tests.null_driver.library import null_driver

_CALLS: dict[Verb, str] = {
    "allocate": "cuMemAlloc",
    "allocate_pinned": "cuMemHostAlloc",
    "begin_capture": "cuStreamBeginCapture",
    "copy": "cuMemcpyAsync",
    "end_capture": "cuGraphInstantiate",
    "fill": "cuMemsetD2D8Async",
    "free_pinned": "cuMemFreeHost",
    "is_done": "cuEventQuery",
    "launch": "cuLaunchKernel",
    "launch_graph": "cuGraphLaunch",
    "load": "cuModuleLoadData",
    "synchronize": "cuStreamSynchronize",
    "work": "work",
}
HOST_LIBRARY = "null driver: "
"""How an image begins that is the path of a library for this machine (`kernels.c`)."""


class NullCudaDriver(CudaDriver):
    """One GPU of the null driver, opened by the real driver. Kernels run on the host build."""

    def __init__(self, *, index: int = 0) -> None:
        self.null = null_driver()
        super().__init__(index)

    @property
    def is_closed(self) -> bool:
        """Whether the driver was closed."""
        return self._is_closed

    @property
    def live_bytes(self) -> tuple[int, int]:
        """How much GPU memory and how much pinned memory is allocated."""
        return self.null.live_bytes("GPU memory"), self.null.live_bytes("pinned memory")

    @property
    def live_graphs(self) -> int:
        """How many graphs are not destroyed."""
        return self.null.live.get("executable graphs", 0)

    def fail_next(self, verb: Verb, message: str, *, harm: Harm = Harm.DEVICE) -> None:
        """Let the next call that this verb makes fail with the code that begins the message; CUDA knows its harm."""
        del harm
        self.null.fail(_CALLS[verb], code=message.partition(":")[0])

    def check(self) -> None:
        """Raise AssertionError if anything was left when the context was released."""
        assert not self.null.orphans, f"destroyed only with its context: {self.null.orphans}"

    def load(self, source: KernelSource) -> int:
        """Build a source for this machine's processor instead of this GPU, and load it."""
        image = f"{HOST_LIBRARY}{load_host_build(source)._name}".encode()
        return self._made("cuModuleUnload", self._cuda.cuModuleLoadData, image)
