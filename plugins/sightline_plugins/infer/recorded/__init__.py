"""Recorded detections in the place of a detector."""
