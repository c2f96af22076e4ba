"""Decoding on the CPU: opening media, frames with exact timestamps, surfaces that view the decoder's planes."""
