"""Fakes of hardware and libraries: a GPU, NVDEC, NVENC, TensorRT, ONNX Runtime. They are never in the wheel."""

from tests.fakes.cuda import POISON, CudaMisuse
from tests.fakes.cuda_driver import FakeCudaDriver
from tests.fakes.device import fake_cuda_device
from tests.fakes.host_build import ORDERS, HostKernels, Order, run_sanitized
from tests.fakes.nvdec import HOPPER, Caps, FakeNvdec, NvdecFaults, fake_nvdec
from tests.fakes.nvenc import ADA, NO_NVENC, FakeNvenc, NvencCaps, NvencFaults, fake_nvenc
from tests.fakes.tensorrt import FakeTensorRt, fake_tensorrt
from tests.fakes.tensorrt_names import TensorRtFaults

__all__ = [
    "ADA",
    "HOPPER",
    "NO_NVENC",
    "ORDERS",
    "POISON",
    "Caps",
    "CudaMisuse",
    "FakeCudaDriver",
    "FakeNvdec",
    "FakeNvenc",
    "FakeTensorRt",
    "HostKernels",
    "NvdecFaults",
    "NvencCaps",
    "NvencFaults",
    "Order",
    "TensorRtFaults",
    "fake_cuda_device",
    "fake_nvdec",
    "fake_nvenc",
    "fake_tensorrt",
    "run_sanitized",
]
