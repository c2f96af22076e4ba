"""A CUDA driver without a GPU, for the real packages: `libcuda.so.1` in C (`null_driver.h` says what it does).

The fake (`tests/fakes/cuda_driver.py`) takes the place of our driver; this takes the place of NVIDIA's, so that
`CudaDriver` and cuda-bindings are the real ones. Its calls are counted, what is not destroyed is found, and any call
can fail.
"""

from tests.null_driver.driver import NullCudaDriver
from tests.null_driver.library import GPUS_VARIABLE, Call, NullDriver, build_null_driver, fresh_null_driver

__all__ = ["GPUS_VARIABLE", "Call", "NullCudaDriver", "NullDriver", "build_null_driver", "fresh_null_driver"]
