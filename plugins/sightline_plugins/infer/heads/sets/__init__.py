"""Heads of networks that give a fixed set of boxes, each with a score for every class (the DETR family)."""
