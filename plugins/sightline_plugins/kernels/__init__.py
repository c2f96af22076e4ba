"""Kernels for GPUs (`.cu`), and beside each the module that launches it: device arrays in, device arrays out."""
