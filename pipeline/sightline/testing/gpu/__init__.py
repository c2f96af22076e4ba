"""Tools for tests of what runs on a GPU, on machines without one."""

from sightline.testing.gpu.host_kernels import ORDERS, HostKernels, Order

__all__ = ["ORDERS", "HostKernels", "Order"]
