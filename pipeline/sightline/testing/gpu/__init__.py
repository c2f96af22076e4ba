"""Tools for tests of what runs on a GPU, on machines without one."""

from sightline.testing.gpu.host_kernels import ORDERS, HostKernels, Order
from sightline.testing.gpu.sanitizer import run_sanitized

__all__ = ["ORDERS", "HostKernels", "Order", "run_sanitized"]
