"""Encoding on the GPU: NVENC through PyNvVideoCodec, from surfaces in GPU memory."""
