"""Decoding: opening media, frames with exact timestamps, and decoders: the CPU's, and `nvdec` on a GPU."""
