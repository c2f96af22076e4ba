"""Heads whose boxes are corrections of boxes that are known beforehand (anchors, priors, default boxes)."""
