"""Tools for tests of pipelines: what stands for libraries and hardware that a machine lacks."""

from sightline_plugins.testing.nvdec_double import NvdecDouble, nvdec_double

__all__ = ["NvdecDouble", "nvdec_double"]
