"""Looks that never leave the GPU: pre-processing, model, heads and suppression; only what was found comes down."""
