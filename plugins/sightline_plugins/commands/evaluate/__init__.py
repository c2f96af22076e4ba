"""Scores of detections and tracks against ground truth."""
