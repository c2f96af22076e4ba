"""Tools for tests of pipelines: what stands for libraries and hardware that a machine lacks."""

from sightline_plugins.testing.nvdec_double import NvdecDouble, nvdec_double
from sightline_plugins.testing.nvdec_names import HOPPER, Caps, NvdecFaults

__all__ = ["HOPPER", "Caps", "NvdecDouble", "NvdecFaults", "nvdec_double"]
