"""Models on an NVIDIA GPU by TensorRT, or by TensorRT-RTX: one adapter over what both share."""
