"""Adaptive inference: a detector runs on the frames where it pays, and a tracker predicts the others."""
