"""Heads of face detectors, most of which find five landmarks too."""
