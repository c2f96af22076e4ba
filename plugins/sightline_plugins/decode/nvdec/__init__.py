"""Decoding on the GPU: NVDEC through PyNvVideoCodec, with PyAV reading the input, and the CPU for what NVDEC lacks."""
