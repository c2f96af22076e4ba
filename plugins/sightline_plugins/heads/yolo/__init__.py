"""Heads of the YOLO family."""
