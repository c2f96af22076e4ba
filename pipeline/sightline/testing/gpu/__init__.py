"""Tools for tests of what runs on a GPU, on machines without one."""

from sightline.testing.gpu.double import DoubleDriver
from sightline.testing.gpu.double_memory import POISON, GpuMisuse
from sightline.testing.gpu.host_kernels import ORDERS, HostKernels, Order
from sightline.testing.gpu.sanitizer import run_sanitized
from sightline.testing.gpu.stand_in import double_gpu

__all__ = ["ORDERS", "POISON", "DoubleDriver", "GpuMisuse", "HostKernels", "Order", "double_gpu", "run_sanitized"]
