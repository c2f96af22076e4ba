"""Tools for tests of pipelines: what stands for libraries and hardware that a machine lacks."""

from sightline_plugins.testing.nvdec_double import NvdecDouble, nvdec_double
from sightline_plugins.testing.nvdec_names import HOPPER, Caps, NvdecFaults
from sightline_plugins.testing.nvenc_double import NvencDouble, nvenc_double
from sightline_plugins.testing.nvenc_names import ADA, NO_NVENC, NvencCaps, NvencFaults
from sightline_plugins.testing.tensorrt_double import TensorRtDouble, tensorrt_double
from sightline_plugins.testing.tensorrt_names import TensorRtFaults

__all__ = [
    "ADA",
    "HOPPER",
    "NO_NVENC",
    "Caps",
    "NvdecDouble",
    "NvdecFaults",
    "NvencCaps",
    "NvencDouble",
    "NvencFaults",
    "TensorRtDouble",
    "TensorRtFaults",
    "nvdec_double",
    "nvenc_double",
    "tensorrt_double",
]
